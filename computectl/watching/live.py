"""The live screen: reads its data in a thread of its own, draws it, and reads keys."""

import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from io import TextIOWrapper
from typing import IO, Any, Generic, TypeVar

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.rule import Rule
from rich.text import Text

from computectl.shared.commands import as_command_error
from computectl.watching.controls import Controls, Keyboard
from reportclient.plain_text import plain

T = TypeVar("T")
CHANGES = 6
"""Maximum number of lines for changes; at most a quarter of the screen."""

Size = tuple[int, int]
"""Columns and lines."""
KEPT = 200
"""Maximum number of changes that are kept."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change between two reads; ``at``: seconds since the epoch."""

    at: float
    subject: str
    text: str
    style: str = ""


@dataclass(slots=True)
class Feed(Generic[T]):
    """Reads data every ``interval`` seconds; ``wrong``: why it could not be read since ``at``.

    ``changes`` has the newest first; it is replaced, not edited, as another thread reads it.
    """

    read: Callable[[], T]
    changed: Callable[[T, T, float], list[Change]]
    interval: float
    latest: T
    at: float = field(default_factory=time.time)
    wrong: str = ""
    changes: tuple[Change, ...] = ()

    def start(self) -> None:
        """Start the thread; it does not keep the program from exiting."""
        threading.Thread(target=self._run, name="feed", daemon=True).start()

    def _run(self) -> None:
        while True:
            time.sleep(self.interval)
            self.once()

    def once(self) -> None:
        """Read the data and note the changes."""
        try:
            now = self.read()
        except Exception as err:  # noqa: BLE001  shown, and retried
            self.wrong = str(as_command_error(err, "the configuration"))
            return
        at = time.time()
        new_changes = self.changed(self.latest, now, at)
        self.changes = (*reversed(new_changes), *self.changes)[:KEPT]
        self.latest, self.at, self.wrong = now, at, ""


@dataclass(frozen=True, slots=True)
class View(Generic[T]):
    """A screen: head, rows that scroll below ``titles`` lines, changes, foot.

    ``wrong``: an error, shown in the head in place of all its texts except the first.  ``draw``:
    returns the visible rows, drawn on a number of lines.
    """

    head: Sequence[tuple[str, str]]
    wrong: str | None
    rows: Sequence[T]
    draw: Callable[[Sequence[T], int], Iterable[RenderableType]]
    keys: str
    titles: int = 0

    def room(self, height: int) -> int:
        """Return how many rows fit on a screen of ``height`` lines."""
        return max(1, height - 2 - self.titles - _changes_room(height))

    def on(self, feed: Feed[Any], controls: Controls, size: Size) -> RenderableType:
        """Draw the whole screen, with the rows from ``controls.top`` on."""
        width, height = size
        many, room = len(self.rows), self.room(height)
        top = min(controls.top, max(0, many - room))
        shown = self.rows[top : top + room]
        place = f"{top + 1}-{top + len(shown)} of {many}" if shown else "nothing"
        return Group(
            _head(self.head, feed.at, feed.wrong or self.wrong, width),
            *self.draw(shown, room),
            _changes(feed.changes, height),
            _foot(self.keys, place, width),
        )


def _clock(at: float) -> str:
    """Return a time as HH:MM:SS, local."""
    return time.strftime("%H:%M:%S", time.localtime(at))


def _head(texts: Sequence[tuple[str, str]], at: float, wrong: str | None, width: int) -> Text:
    """Draw the title, state and time; ``wrong`` in place of the state."""
    now = _clock(at)
    if wrong:
        texts = [texts[0], (f"as of {now}: {wrong}", "red")]
    line = Text("  ").join(Text(plain(text), style) for text, style in texts)
    return _with_right(line, Text(now, "dim"), width)


def _foot(keys: str, place: str, width: int) -> Text:
    """Draw the keys, and which lines are shown."""
    line = _with_right(Text(plain(keys)), Text(place), width)
    line.stylize("reverse")
    return line


def _with_right(line: Text, right: Text, width: int) -> Text:
    """Return a line with a second text at the screen's right edge; cut the first if needed."""
    line.truncate(max(0, width - right.cell_len - 2), overflow="ellipsis")
    line.pad_right(max(0, width - line.cell_len - right.cell_len))
    return _one_line(line.append_text(right))


def _changes_room(height: int) -> int:
    """Return the number of lines for changes."""
    return min(CHANGES, height // 4)


def _changes(changes: Iterable[Change], height: int) -> RenderableType:
    """Draw the changes, the newest first."""
    room = _changes_room(height) - 1
    shown = [_change(change) for change in changes][:room]
    if not shown:
        shown = [Text("nothing has changed since this screen was opened", "dim")]
    return Group(Rule("changes", style="dim"), *padded(shown, room))


def padded(lines: Sequence[Text], room: int) -> list[Text]:
    """Return the lines, each cut at the screen's width, and empty lines up to ``room``."""
    return [*map(_one_line, lines), *[Text("")] * (room - len(lines))]


def _one_line(text: Text) -> Text:
    """Return a text that is cut off at the screen's width."""
    text.no_wrap, text.overflow = True, "ellipsis"
    return text


def _change(change: Change) -> Text:
    subject = f"{plain(change.subject)}  " if change.subject else ""
    return Text.assemble(
        (f"{_clock(change.at)}  ", "dim"), (subject, "bold"), (plain(change.text), change.style)
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
    """Show the screen until it is quit or the terminal closes; restore the terminal."""
    feed.start()
    if isinstance(stdout, TextIOWrapper):
        stdout.reconfigure(errors="replace")  # for characters that the encoding lacks
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
    """Return a list that collects the signals from now on, instead of raising exceptions."""
    caught: list[int] = []
    for number in signals:
        signal.signal(number, lambda signum, _frame: caught.append(signum))
    return caught
