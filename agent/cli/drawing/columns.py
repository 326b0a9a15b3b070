"""Lines of words, some with amounts that stand in columns on the right.  Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from agent.cli.shared.screen import Look

BETWEEN = "  "


@dataclass(frozen=True, slots=True)
class Line:
    """``words`` may each have a style; ``style`` is that of the ``cells``."""

    prefix: str
    words: tuple[tuple[str, str | None], ...] = ()
    cells: tuple[str, ...] = ()
    style: str | None = None

    @property
    def left(self) -> str:
        """What stands before the columns, without colour."""
        return self.prefix + BETWEEN.join(word for word, _ in self.words)


def in_columns(lines: Sequence[Line], titles: Sequence[str], look: Look) -> Iterator[str]:
    """The lines as text.  The titles stand above the first, if any line has cells."""
    rows = [line for line in lines if line.cells]
    table = [titles, *(row.cells for row in rows)]
    widths = [max(map(len, column)) for column in zip(*table, strict=True)]
    left = max((len(row.left) for row in rows), default=0)
    roomy = left + sum(widths) + len(BETWEEN) * len(widths) <= look.width
    gap = BETWEEN if roomy else " "
    if rows:
        yield " " * left + _cells(titles, widths, gap)
    for line in lines:
        words = BETWEEN.join(look.paint(word, style) for word, style in line.words)
        if line.cells:
            words += " " * (left - len(line.left))
            words += look.paint(_cells(line.cells, widths, gap), line.style)
        yield (line.prefix + words).rstrip()


def _cells(cells: Iterable[str], widths: Iterable[int], gap: str) -> str:
    return "".join(gap + cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
