"""What suits a stream."""

import io
import os
import pty
from itertools import product

import pytest

from computectl.shared.screen import PLAIN_WIDTH, Screen, folded


def stream(encoding: str) -> io.TextIOWrapper:
    return io.TextIOWrapper(io.BytesIO(), encoding=encoding)


def test_a_pipe_has_no_colour_and_the_usual_width() -> None:
    assert Screen.for_stream(stream("utf-8"), {}) == Screen(PLAIN_WIDTH, colour=False)


@pytest.mark.parametrize(("said", "width"), [("120", 120), ("7", 40), ("", 80), ("wide", 80)])
def test_columns_says_the_width(said: str, width: int) -> None:
    assert Screen.for_stream(stream("utf-8"), {"COLUMNS": said}).width == width


def test_a_line_is_folded_by_the_width_that_is_seen() -> None:
    screen = Screen(width=40, colour=True)
    painted = screen.paint("rot", "red")
    lines = ["  " + f"{painted} " * 9 + "schwarz", "", f"一二三 {'x' * 50} end"]
    assert screen.fold("\n".join(lines)).split("\n") == [
        *("  " + " ".join([painted] * 9), "    schwarz", ""),
        *("一二三", f"  {'x' * 50}", "  end"),
    ]


COMMANDS = [
    "computectl retire --hand-back",
    "computectl service delete host1",
    "openstack trait delete CUSTOM_X",
    "compute-agent --dev --once",
    "`computectl adopt host1 -f json`",
]


@pytest.mark.parametrize("after", [" on its host", "; if not,", ", then", " shows it", ""])
def test_a_command_to_copy_is_never_broken_where_it_fits_in_a_line(after: str) -> None:
    for command, width in product(COMMANDS, range(40, 81)):
        lines = folded(f"if nova-compute reports it now: {command}{after}", width).split("\n")
        assert any(command in line for line in lines)
        assert max(map(len, lines)) <= width
    long = f"openstack resource provider set {'x' * 36}"
    assert max(map(len, folded(f"to remove it: {long}", 50).split("\n"))) <= 50


@pytest.mark.parametrize(
    ("environ", "colour"),
    [
        ({"TERM": "xterm"}, True),
        ({"TERM": "dumb"}, False),
        ({"TERM": "xterm", "NO_COLOR": "1"}, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True),
    ],
)
def test_a_terminal_has_colour_unless_it_says_no(environ: dict[str, str], colour: bool) -> None:
    ours, theirs = pty.openpty()
    with os.fdopen(ours), open(theirs, "w") as terminal:
        screen = Screen.for_stream(terminal, environ)
    assert screen.colour == colour
    assert screen.paint("x", "red") == ("\033[31mx\033[0m" if colour else "x")
