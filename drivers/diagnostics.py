"""Diagnostics of files: an error and its place in the file."""

from collections.abc import Iterable
from dataclasses import dataclass

Path = tuple[str | int, ...]
"""Mapping keys and list indexes from the top of a file to a value."""


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """An error in a file; ``path`` names the value, empty if the error is about the whole file."""

    file: str
    line: int
    path: str
    text: str

    def __str__(self) -> str:
        path = f"{self.path}: " if self.path else ""
        return f"{self.file}:{self.line}: {path}{self.text}"


class BadFile(Exception):
    """The file can't be used; ``diagnostics`` has all of its errors."""

    def __init__(self, diagnostics: Iterable[Diagnostic]) -> None:
        super().__init__()
        self.diagnostics = tuple(diagnostics)

    def __str__(self) -> str:
        more = f" (and {len(self.diagnostics) - 1} more)" if self.diagnostics[1:] else ""
        return f"{self.diagnostics[0]}{more}"


def path_text(path: Path) -> str:
    """Return the path as text, such as ``providers[0].traits``."""
    text = "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in path)
    return text.removeprefix(".")
