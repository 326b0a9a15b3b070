"""docs/messages.rst and operate.rst tell of messages that the program really has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
OPERATE = (REPOSITORY / "docs" / "operate.rst").read_text()
MESSAGES = (REPOSITORY / "docs" / "messages.rst").read_text()
SYSTEMDS_OWN = {"Watchdog timeout"}


def source() -> str:
    """All of it, with literals that continue on the next line joined."""
    files = (
        f
        for top in (
            "agent",
            "compute_registry",
            "computectl",
            "driverkit",
            "drivers",
            "reportclient",
        )
        for f in (REPOSITORY / top).rglob("*.py")
    )
    return re.sub(r'"\s*\n\s*f?"', "", "\n".join(path.read_text() for path in files))


def told() -> Iterator[str]:
    """The terms of the page of messages, several on a line, and the table of states."""
    for term in re.findall(r"^(``.+``)\n    \S", MESSAGES, re.MULTILINE):
        yield from re.findall(r"``(.+?)``", term)
    states = OPERATE.partition("Status ")[2].partition("The watchdog")[0]
    yield from re.findall(r"^``(.+?)``", states, re.MULTILINE)


def pieces(message: str) -> list[str]:
    """What stands between the parts that vary."""
    return [
        piece
        for part in re.split(r"…|GET|'|placement(?=])", message)
        if len(piece := part.strip()) > 3
    ]


def test_the_page_has_its_messages() -> None:
    assert len(list(told())) > 90


@pytest.mark.parametrize("message", sorted(set(told()) - SYSTEMDS_OWN))
def test_the_program_says_it(message: str) -> None:
    text = source()
    assert pieces(message) and [piece for piece in pieces(message) if piece not in text] == []
