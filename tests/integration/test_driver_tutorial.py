"""docs/drivers.rst, followed literally: from ``driver new`` to a tree in a real Placement."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.author import Author
from tests.integration.transcripts import Uuids, plain, replayed

DOCUMENT = (Path(__file__).resolve().parents[2] / "docs" / "drivers.rst").read_text()
RUNNING = re.search(r"in one terminal::\n\n {4}(.*)\n", DOCUMENT)


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Author]:
    made = Author(tmp_path_factory.mktemp("author"))
    made.prepare()
    yield made
    made.stop()


def host_disks() -> set[str]:
    """Of this machine, by another way than the driver's."""
    found = Path("/sys/block").glob("*/device")
    return {p.parent.name for p in found if int((p.parent / "size").read_text()) > 0}


@pytest.fixture(scope="module")
def followed(author: Author) -> list[tuple[str, list[str], list[str]]]:
    """Each command with what the document shows, and what it says."""
    assert RUNNING is not None
    deeds = {
        "start": lambda: author.start(RUNNING[1], lambda log: "to Placement" in log),
        "stop": author.stop,
    }
    shown, said = Uuids(), Uuids()
    return [
        (command.words, plain(command.output, shown), plain(output, said))
        for command, output in replayed(DOCUMENT, deeds, author.run)
    ]


def test_each_command_says_what_the_tutorial_shows(followed) -> None:
    assert len(followed) > 8
    for words, shown, said in followed:
        if shown:
            assert said == shown, words


def test_the_packages_own_tests_pass_and_the_kit_is_among_them(followed) -> None:
    ((_, _, said),) = [each for each in followed if "pytest" in each[0]]
    passed = re.search(r"(\d+) passed", said[-1])
    assert passed is not None and int(passed[1]) >= 7 and "failed" not in said[-1]


def test_without_its_folder_the_driver_reports_this_machine(followed) -> None:
    words, _, said = followed[-1]
    assert words.startswith("compute-agent") and "nvme0n1" not in said
    with_inventory = r"host1_mydriver_(\w+).*\n.*CUSTOM_LOCAL_DISK"
    assert set(re.findall(with_inventory, "\n".join(said))) == host_disks()


def test_the_method_that_is_shown_is_the_packages(author: Author, followed) -> None:
    (block,) = re.findall(r"code-block:: python\n\n((?: {4}.*\n|\n)+)", DOCUMENT)
    source = (author.cwd / "mydriver" / "driver.py").read_text()
    assert block.rstrip() in source


def test_the_readme_of_the_package_says_the_same_commands(author: Author, followed) -> None:
    readme = (author.cwd / "README.rst").read_text()
    ours = re.findall(r"^ {4}((?:python|compute-agent) .*)$", readme, re.M)
    tutorial = [words.replace(" -q", "") for words, _, _ in followed]
    assert len(ours) == 3 and set(ours) <= set(tutorial)


def test_programs_get_the_paths(author: Author, followed) -> None:
    said = author.run("computectl driver new my_gpus --directory deep/my_gpus -f json")
    paths = [row["path"] for row in json.loads(said)]
    assert "deep/my_gpus/my_gpus/driver.py" in paths
    assert all((author.cwd / path).is_file() for path in paths)
    assert not list((author.cwd / "deep").glob(".*"))
    driver = (author.cwd / "deep/my_gpus/my_gpus/driver.py").read_text()
    assert "class MyGpusDriver(DeviceDriver)" in driver and "@" not in driver.replace("@c", "")


def test_the_commands_of_a_new_reshape_driver_show_a_reshape(author: Author, followed) -> None:
    said = author.run("computectl driver new cards --kind reshape --directory cards")
    named = [line.strip().partition("    #")[0] for line in said.partition("Next:")[2].splitlines()]
    go, install, _, before, after = filter(None, named)
    author.run(f"true && {go} && {install.replace('install', 'install -q')}")
    written = [author.run(f"true && {go} && {each}").splitlines()[-1] for each in (before, after)]
    assert written[0].startswith("host1: created 1 provider (host1), set 1 inventory")
    assert "reshaped 3 providers (host1 and 2 new)" in written[1]
