"""A live screen: what all screens have, and the loop that draws, waits for a key, draws again."""

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from io import TextIOWrapper
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from agent.cli.watching.controls import Controls, Keyboard
from agent.cli.watching.feed import Change
from reportclient.plain_text import plain

CHANGES = 6
"""Lines for what changed lately, at most; a quarter of the screen."""

Size = tuple[int, int]
"""Columns and lines."""


def clock(at: float) -> str:
    """As people here read it."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def head(said: Sequence[tuple[str, str]], at: float, wrong: str | None, width: int) -> Text:
    """What it is and how it is, and of when that is; what is ``wrong`` in place of the rest."""
    now = clock(at)
    if wrong:
        said = [said[0], (f"as of {now}: {wrong}", "red")]
    line = Text("  ").join(Text(plain(words), style) for words, style in said)
    line.truncate(width - len(now) - 2, overflow="ellipsis")
    line.pad_right(width - line.cell_len - len(now))
    line.append(now, "dim")
    return one_line(line)


def foot(words: str, place: str, width: int) -> Text:
    """What keys do, and which lines are shown."""
    line = Text(plain(words))
    line.truncate(max(0, width - len(place) - 2), overflow="ellipsis")
    line.pad_right(max(0, width - line.cell_len - len(place)))
    line.append(place)
    line.stylize("reverse")
    return one_line(line)


def lately_room(height: int) -> int:
    """Lines for what changed."""
    return min(CHANGES, height // 4)


def lately(changes: Iterable[Change], height: int) -> RenderableType:
    """What changed, the newest first."""
    room = lately_room(height) - 1
    shown = [_change(one) for one in changes][:room]
    if not shown:
        shown = [Text("nothing has changed since this screen began", "dim")]
    return Group(Rule("changes", style="dim"), *padded(shown, room))


def padded(lines: Sequence[Text], room: int) -> list[Text]:
    """As many as there is room for."""
    return [*map(one_line, lines), *[Text("")] * (room - len(lines))]


def one_line(text: Text) -> Text:
    """Cut off where the screen ends."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _change(one: Change) -> Text:
    subject = f"{plain(one.subject)}  " if one.subject else ""
    return Text.assemble(
        (f"{clock(one.at)}  ", "dim"), (subject, "bold"), (plain(one.text), one.style)
    )


DRAWN_EVERY = 0.5
"""Seconds between two drawings where no key is pressed."""

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
