"""The drivers in examples/: their READMEs' commands say what is shown, their tests pass."""

import re
import shutil
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.author import Author
from tests.integration.transcripts import expect_as_shown
from tests.servers.placement import RealPlacement

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
DEVICE = "host1_device_0000:81:00.0"
CONFIGURATION = """\
[DEFAULT]
host = host1
compute_driver = accelerators
state_path = {state}
[accelerators]
root = host
[placement]
auth_type = admin_token
token = admin
endpoint = {url}
"""


def author_of(example: str, directory: Path) -> Author:
    made = Author(directory)
    made.prepare()
    left_out = shutil.ignore_patterns("*.egg-info", "__pycache__", "state", "host", ".pytest_cache")
    shutil.copytree(EXAMPLES / example, made.cwd / example, ignore=left_out)
    made.cwd /= example
    return made


def follow(author: Author, deeds: dict) -> None:
    """Run every command of the README."""
    expect_as_shown((author.cwd / "README.rst").read_text(), deeds, author.run)


@pytest.fixture(scope="module")
def accelerators(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Author]:
    author = author_of("accelerators", tmp_path_factory.mktemp("accelerators"))
    follow(author, {})
    yield author
    author.stop()


@pytest.fixture(scope="module")
def ironic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Author]:
    author = author_of("ironic", tmp_path_factory.mktemp("ironic"))
    yield author
    author.stop()


def serve_stub(author: Author) -> None:
    """The README's port may be taken here: another one."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
    (command,) = re.findall(
        r"^ {4}(python .*) 16385$", (author.cwd / "README.rst").read_text(), re.M
    )
    author.start(f"{command} {port}", lambda _: listens(int(port)))
    configured = author.cwd / "ironic.conf"
    configured.write_text(configured.read_text().replace("16385", port))


def listens(port: int) -> bool:
    with socket.socket() as link:
        return link.connect_ex(("127.0.0.1", port)) == 0


@pytest.mark.faults
def test_the_readme_about_ironic_says_what_happens(ironic: Author) -> None:
    follow(ironic, {"serve": lambda: serve_stub(ironic)})


def test_a_guests_accelerator_is_kept_from_others_until_it_is_free(
    accelerators: Author, placement: RealPlacement
) -> None:
    path = accelerators.cwd / "real.conf"
    path.write_text(CONFIGURATION.format(url=placement.url, state=accelerators.cwd / "real"))
    period = f"compute-agent --once --config-file {path}"
    accelerators.run(period)
    device = placement.uuids().get(DEVICE)
    assert device is not None
    consumer = placement.stranger.put_allocation({device: {"CUSTOM_PCI_144D_A80A": 1}})
    (accelerators.cwd / "host/sys/bus/pci/devices/0000:81:00.0").unlink()
    drained = accelerators.shell(period)
    assert consumer in drained.stderr, "the guest is named"
    record = placement.stranger.inventory(device)["CUSTOM_PCI_144D_A80A"]
    assert record["reserved"] == record["total"] == 1
    placement.request("DELETE", f"/allocations/{consumer}")
    accelerators.run(period)
    assert placement.uuids().get(DEVICE) is None
