"""The loop of a live screen: draw, wait for a key, draw again."""

import signal
from collections.abc import Callable
from io import TextIOWrapper
from typing import IO

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
    ended = _heard(signal.SIGINT, signal.SIGTERM)
    with (
        Keyboard(keyboard) as keys,
        Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live,
    ):
        while not controls.left and not ended:
            size = (console.size.width, console.size.height)
            live.update(draw(controls, size), refresh=True)
            lines, page = extent(controls, size)
            for key in keys.keys(DRAWN_EVERY):
                controls = controls.pressed(key, page, lines)
    if signal.SIGTERM in ended:
        raise SystemExit(128 + signal.SIGTERM)


def _heard(*signals: signal.Signals) -> list[int]:
    """Those of them that came, from now on: an exception could come where nobody lets it pass."""
    heard: list[int] = []
    for one in signals:
        signal.signal(one, lambda signum, _frame: heard.append(signum))
    return heard
