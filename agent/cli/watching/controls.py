"""What keys do to a screen.  Pure."""

from dataclasses import dataclass, replace

from agent.cli.watching.hosts import ORDERS
from agent.cli.watching.keyboard import GONE

LEAVE = ("q", "Q")


@dataclass(frozen=True, slots=True)
class Controls:
    """``top`` is the first line that is shown; ``typing``: keys are words of the filter."""

    words: str = ""
    order: str = next(iter(ORDERS))
    backwards: bool = False
    top: int = 0
    typing: bool = False
    left: bool = False

    def pressed(self, key: str, page: int, lines: int) -> "Controls":
        """After a key, where ``page`` of ``lines`` lines can be seen."""
        if key == GONE or (not self.typing and key in LEAVE):
            return replace(self, left=True)
        if self.typing:
            return self._typed(key)
        orders = list(ORDERS)
        after = orders[(orders.index(self.order) + 1) % len(orders)]
        told = {
            "/": replace(self, typing=True),
            "esc": replace(self, words="", top=0),
            "s": replace(self, order=after, top=0),
            "r": replace(self, backwards=not self.backwards, top=0),
        }
        return told.get(key) or self._moved(key, page, lines)

    def _typed(self, key: str) -> "Controls":
        if key == "enter":
            return replace(self, typing=False)
        if key == "esc":
            return replace(self, typing=False, words="", top=0)
        if key == "backspace":
            return replace(self, words=self.words[:-1], top=0)
        return replace(self, words=self.words + key, top=0) if len(key) == 1 else self

    def _moved(self, key: str, page: int, lines: int) -> "Controls":
        last = max(0, lines - page)
        top = {
            "up": self.top - 1,
            "k": self.top - 1,
            "down": self.top + 1,
            "j": self.top + 1,
            "pgup": self.top - page,
            "pgdn": self.top + page,
            " ": self.top + page,
            "home": 0,
            "g": 0,
            "end": last,
            "G": last,
        }.get(key, self.top)
        return replace(self, top=min(max(top, 0), last))
