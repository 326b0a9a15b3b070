"""The pages name commands, options, files, messages and methods that there are, and are short."""

import argparse
import re
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from agent import opts
from compute_registry import config as registry_config
from computectl.app import ComputeCtl
from drivers import abilities, api
from reportclient.provider_tree import ProviderTree

REPOSITORY = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for pattern in ("*.rst", "docs/**/*.rst", "docs/*.md", "tests/*.rst", "benchmarks/*.rst")
    for path in REPOSITORY.glob(pattern)
)
each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
PACKAGES = ("agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient")


def text_of(page: str) -> str:
    return (REPOSITORY / "docs" / f"{page}.rst").read_text()


# -- files

FOLDERS = (*PACKAGES, "benchmarks", "deploy", "docs", "etc", "examples", "tests", "tools")
NAMED = re.compile(rf"(?<![\w/.$-])((?:{'|'.join(FOLDERS)})/[\w./-]*\w)(?![\w<])")
LONGEST = 2000
"""Words of a page that is read; ``messages.rst`` is searched."""
OF_A_NEW_DRIVER = ("tests/host", "tests/test_driver.py")


@each_page
def test_a_page_names_files_that_are_there_and_is_short_enough_to_be_read(page: Path) -> None:
    text = page.read_text()
    named = [path for path in NAMED.findall(text) if not path.startswith(OF_A_NEW_DRIVER)]
    assert [path for path in named if not (REPOSITORY / path).exists()] == []
    assert len(text.split()) <= LONGEST or page.stem == "messages"


def test_each_row_of_the_limits_ends_with_a_test_that_there_is() -> None:
    text = re.sub(r"\n  +", " ", text_of("limits"))  # a row, or an entry of a list, is one line
    tables = "".join(re.split(r"(?m)^=+  =+\n", text)[2::3])
    rows = [*tables.splitlines(), *re.findall(r"(?m)^- .*", text)]
    names = [re.search(r"``(test_\w+)``$", row) for row in rows]
    assert len(rows) > 10 and [row for row, it in zip(rows, names, strict=True) if not it] == []
    tests = "".join(path.read_text() for path in REPOSITORY.glob("tests/**/test_*.py"))
    assert [it[1] for it in names if it and f"\ndef {it[1]}(" not in tests] == []


# -- commands

COMMANDS = {
    tuple(point.name.split("_")): point for point in metadata.entry_points(group="computectl")
}
SHOWN = re.compile(
    r"(?:^(?: {4}(?:\$ )?|.*``))(computectl|compute-agent|compute-registry)((?: [^`\n]*)?)", re.M
)
OPTIONS = {
    program: {f"--{option.dest.replace('_', '-')}" for option in options}
    for program, options in (
        ("compute-agent", [*opts.COMMAND_LINE, *opts.DEFAULT[1:3]]),
        ("compute-registry", registry_config.COMMAND_LINE),
    )
}
OF_OSLO = {"--config-file", "--config-dir", "--version", "--help"}
OF_A_GROUP = re.compile(r"--(required|forbidden|member-of|in-tree|resources)[-_]\w+$")
"""Options of ``candidates`` that end with a group's suffix."""


def shown(text: str) -> Iterator[tuple[str, list[str]]]:
    """Programs and the words after each."""
    for found in SHOWN.finditer(re.sub(r"(?<=\S)\n *(?=[^`\n]*``)", " ", text)):
        words = found[2].partition("#")[0].split()
        yield found[1], [re.sub(r"[`).,;:]+$", "", word) for word in words]


def unknown(program: str, words: list[str]) -> set[str]:
    """Options, or the command, that the program does not have."""
    given = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
    if program in OPTIONS:
        return given - OF_OSLO - OPTIONS[program]
    plain = words[1:] if words[:1] == ["--debug"] else words
    plain = plain[2:] if plain[:1] == ["--config-file"] else plain
    key = next((key for key in COMMANDS if tuple(plain[: len(key)]) == key), None)
    if key is None:
        is_group = len(words) == 1 and any(key[0] == words[0] for key in COMMANDS)
        is_command = re.fullmatch(r"[a-z][a-z-]+", next(iter(plain), ""))
        return {plain[0]} if is_command and not is_group else set()
    parser: argparse.ArgumentParser = COMMANDS[key].load()(ComputeCtl(), None).get_parser("it")
    known = {*parser._option_string_actions, *OF_OSLO, "--debug", "-f", "-c"}
    return {one for one in given - known if key != ("candidates",) or not OF_A_GROUP.match(one)}


@each_page
def test_commands_and_options_that_a_page_names_are_there(page: Path) -> None:
    named = shown(page.read_text()) if page.suffix == ".rst" else ()
    found = [(program, words, unknown(program, words)) for program, words in named]
    assert [fault for fault in found if fault[2]] == []


def test_the_manual_pages_have_every_command_and_option() -> None:
    section = text_of("man/computectl").partition("\nCOMMANDS\n")[2].partition("\nEXIT STATUS\n")[0]
    terms = " ".join(re.findall(r"(?m)^(\*\*.*)$", section))
    assert {tuple(term.split()) for term in re.findall(r"\*\*(.+?)\*\*", terms)} == COMMANDS.keys()
    for page, options in OPTIONS.items():
        assert [each for each in options if f"\n{each} " not in text_of(f"man/{page}")] == []


# -- messages


def test_the_program_has_each_message_of_the_pages_for_operators() -> None:
    sources = (path for name in PACKAGES for path in (REPOSITORY / name).rglob("*.py"))
    source = re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in sources))
    terms = re.findall(r"^(``.+``)\n    \S", text_of("messages"), re.M)
    terms += re.findall(
        r"^``.+?``", text_of("operate").partition("Status ")[2].partition("The watchdog")[0], re.M
    )
    messages = {each for term in terms for each in re.findall(r"``(.+?)``", term)}
    assert len(messages) > 50
    messages -= {"Watchdog timeout"}  # systemd's own
    pieces = [
        each.strip() for text in messages for each in re.split(r"…|GET|'|placement(?=])", text)
    ]
    assert [each for each in pieces if len(each) > 3 and each not in source] == []


# -- interfaces


def test_the_page_of_the_driver_api_has_its_names_and_no_other() -> None:
    page = text_of("driver-api")
    methods = {name for name in dir(ProviderTree) if not name.startswith("_")}
    table = page.partition("The tree's methods")[2].partition("\nOwnership\n=")[0]
    assert set(re.findall(r"``([a-z_]+)(?:\(|``)", table)) == methods
    names = set(api.__all__) - {"Allocations", "ProviderData", "ProviderTree"}
    assert [name for name in names if f"``{name}" not in page] == []
    optional = {name for each in abilities.OPTIONAL for name in abilities.methods(each)}
    assert [name for name in optional if f"``{name}(" not in page] == []
    assert f"``API_VERSION`` is ``{api.API_VERSION}``" in page


def test_nothing_that_is_shown_imports_another_module_of_drivers() -> None:
    other = re.compile(r"^\s*(?:from drivers import|from drivers\.(?!api )|import drivers)", re.M)
    files = [*PAGES, *REPOSITORY.glob("examples/**/*.py"), *REPOSITORY.glob("driverkit/**/*.in")]
    assert [str(path) for path in files if other.search(path.read_text())] == []
