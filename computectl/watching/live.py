"""A live screen: what all screens have, and the loop that draws, waits for a key, draws again."""

import signal
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import TextIOWrapper
from typing import IO, Any, Generic, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from computectl.watching.controls import Controls, Keyboard
from computectl.watching.feed import Change, Feed
from reportclient.plain_text import plain

T = TypeVar("T")
CHANGES = 6
"""Lines for what changed lately, at most; a quarter of the screen."""

Size = tuple[int, int]
"""Columns and lines."""


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """A screen: a head, ``above`` of so many lines, as many ``rows`` as fit, changes, a foot.

    ``wrong`` stands in the head in place of all but its first words; ``draw`` makes of the rows
    that are to be seen what fills so many lines.
    """

    said: Sequence[tuple[str, str]]
    wrong: str | None
    rows: Sequence[T]
    draw: Callable[[Sequence[T], int], Iterable[RenderableType]]
    keys: str
    above: Sequence[RenderableType] = ()
    lines_above: int = 0

    def room(self, height: int) -> int:
        """How many rows are seen at once."""
        return max(1, height - 2 - self.lines_above - _changes_room(height))

    def on(self, feed: Feed[Any], controls: Controls, size: Size) -> RenderableType:
        """The whole screen, from ``controls.top`` on."""
        width, height = size
        many, room = len(self.rows), self.room(height)
        top = min(controls.top, max(0, many - room))
        shown = self.rows[top : top + room]
        place = f"{top + 1}-{top + len(shown)} of {many}" if shown else "nothing"
        return Group(
            _head(self.said, feed.at, feed.wrong or self.wrong, width),
            *self.above,
            *self.draw(shown, room),
            _changes(feed.changes, height),
            _foot(self.keys, place, width),
        )


def _clock(at: float) -> str:
    """Return a time as HH:MM:SS, local."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def _head(said: Sequence[tuple[str, str]], at: float, wrong: str | None, width: int) -> Text:
    """Draw the title, state and time; ``wrong`` in place of the state."""
    now = _clock(at)
    if wrong:
        said = [said[0], (f"as of {now}: {wrong}", "red")]
    line = Text("  ").join(Text(plain(words), style) for words, style in said)
    line.truncate(width - len(now) - 2, overflow="ellipsis")
    line.pad_right(width - line.cell_len - len(now))
    line.append(now, "dim")
    return _one_line(line)


def _foot(words: str, place: str, width: int) -> Text:
    """Draw the keys, and which lines are shown."""
    line = Text(plain(words))
    line.truncate(max(0, width - len(place) - 2), overflow="ellipsis")
    line.pad_right(max(0, width - line.cell_len - len(place)))
    line.append(place)
    line.stylize("reverse")
    return _one_line(line)


def _changes_room(height: int) -> int:
    """Lines for what changed."""
    return min(CHANGES, height // 4)


def _changes(changes: Iterable[Change], height: int) -> RenderableType:
    """Draw the changes, the newest first."""
    room = _changes_room(height) - 1
    shown = [_change(one) for one in changes][:room]
    if not shown:
        shown = [Text("nothing has changed since this screen was opened", "dim")]
    return Group(Rule("changes", style="dim"), *padded(shown, room))


def padded(lines: Sequence[Text], room: int) -> list[Text]:
    """As many as there is room for."""
    return [*map(_one_line, lines), *[Text("")] * (room - len(lines))]


def _one_line(text: Text) -> Text:
    """Cut off where the screen ends."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _change(one: Change) -> Text:
    subject = f"{plain(one.subject)}  " if one.subject else ""
    return Text.assemble(
        (f"{_clock(one.at)}  ", "dim"), (subject, "bold"), (plain(one.text), one.style)
    )


DRAWN_EVERY = 0.5
"""Seconds between two drawings where no key is pressed."""


def show(
    stdout: IO[str],
    keyboard: int,
    feed: Feed[T],
    view: Callable[[T, Controls, int], View[Any]],
    controls: Controls,
) -> None:
    """Until q is pressed, or nobody is there; the terminal is then as it was."""
    if isinstance(stdout, TextIOWrapper):
        stdout.reconfigure(errors="replace")  # a letter that the encoding lacks ends no screen
    console = Console(file=stdout, highlight=False)
    ended = _caught(signal.SIGINT, signal.SIGTERM)
    with (
        Keyboard(keyboard) as keys,
        Live(console=console, screen=True, auto_refresh=False, redirect_stderr=False) as live,
    ):
        while not controls.left and not ended:
            size = (console.size.width, console.size.height)
            drawn = view(feed.latest, controls, size[0])
            live.update(drawn.on(feed, controls, size), refresh=True)
            for key in keys.keys(DRAWN_EVERY):
                controls = controls.pressed(key, drawn.room(size[1]), len(drawn.rows))
    if signal.SIGTERM in ended:
        raise SystemExit(128 + signal.SIGTERM)


def _caught(*signals: signal.Signals) -> list[int]:
    """Those of them that came, from now on: an exception could come where nobody lets it pass."""
    caught: list[int] = []
    for one in signals:
        signal.signal(one, lambda signum, _frame: caught.append(signum))
    return caught
