"""An author's test file by the names that pytest would import it and its conftest.py by."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AuthorFile:
    """``folder`` has to be on ``sys.path`` for the names."""

    folder: Path
    module: str
    conftests: tuple[str, ...]
    """The outermost first, as fixtures override each other."""

    @property
    def modules(self) -> tuple[str, ...]:
        """All whose fixtures count; the later one's first."""
        return (*self.conftests, self.module)


def author_file(path: str) -> AuthorFile:
    """Return the folder, module name and conftests of an author's file."""
    file = Path(path)
    folders = list(_folders(file.parent))
    names = [folder.name for folder in reversed(folders[:-1])]
    conftests = tuple(_conftests(folders))
    return AuthorFile(folders[-1], ".".join([*names, file.stem]), conftests)


def _folders(folder: Path) -> Iterator[Path]:
    """That of the file first, that of its outermost package last."""
    while (folder / "__init__.py").is_file():
        yield folder
        folder = folder.parent
    yield folder


def _conftests(folders: list[Path]) -> Iterator[str]:
    names: list[str] = []
    for folder in reversed(folders):
        names += [folder.name] if folder != folders[-1] else []
        if (folder / "conftest.py").is_file():
            yield ".".join([*names, "conftest"])
