"""Diagnostics of files: error and place."""

from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Keys and positions from the top of a file to a value."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """Something about a value of a file; ``path`` is empty where it is about the file."""

    file: str
    line: int
    path: str
    text: str

    def __str__(self) -> str:
        path = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}: {path}{self.text}"


class BadFile(Exception):
    """Files that can't be used, and all that is wrong with them."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        super().__init__()
        self.diagnostics = tuple(diagnostics)

    def __str__(self) -> str:
        more = f" (and {len(self.diagnostics) - 1} more)" if self.diagnostics[1:] else ""
        return f"{self.diagnostics[0]}{more}"


def spelled(path: Path) -> str:
    """``providers[0].traits``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")
