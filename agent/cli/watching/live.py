"""The loop of a live screen: draw, wait for a key, draw again."""

import signal
from collections.abc import Callable
from contextlib import suppress
from io import TextIOWrapper
from types import FrameType
from typing import IO, NoReturn

from rich.console import Console, RenderableType
from rich.live import Live

from agent.cli.watching.controls import Controls
from agent.cli.watching.keyboard import Keyboard

DRAWN_EVERY = 0.5
"""Seconds between two drawings where no key is pressed."""

Size = tuple[int, int]
Draw = Callable[[Controls, Size], RenderableType]
Extent = Callable[[Controls, Size], tuple[int, int]]
"""How many lines can be scrolled to, and how many of them are seen at once: for a size."""


def show(stdout: IO[str], keyboard: int, draw: Draw, extent: Extent, controls: Controls) -> None:
    """Until q is pressed, or nobody is there; the terminal is then as it was."""
    if isinstance(stdout, TextIOWrapper):
        stdout.reconfigure(errors="replace")  # a letter that the encoding lacks ends no screen
    console = Console(file=stdout, highlight=False)
    signal.signal(signal.SIGTERM, _end)
    with (
        suppress(KeyboardInterrupt),
        Keyboard(keyboard) as keys,
        Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live,
    ):
        while not controls.left:
            size = (console.size.width, console.size.height)
            live.update(draw(controls, size), refresh=True)
            lines, page = extent(controls, size)
            for key in keys.keys(DRAWN_EVERY):
                controls = controls.pressed(key, page, lines)


def _end(signum: int, _frame: FrameType | None) -> NoReturn:
    """Leave by the way on which the terminal is put right."""
    raise SystemExit(128 + signum)
