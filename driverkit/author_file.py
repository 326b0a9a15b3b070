"""The module names by which pytest imports an author's test file and its conftest.py files."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class AuthorFile:
    """An author's test file; its module names are relative to ``folder``, to be on ``sys.path``."""

    folder: Path
    module: str
    conftests: tuple[str, ...]
    """Modules of conftest.py files, the outermost first: later ones override fixtures."""

    @property
    def modules(self) -> tuple[str, ...]:
        """The modules to load as plugins; fixtures of later ones override earlier ones."""
        return (*self.conftests, self.module)


def author_file(path: str) -> AuthorFile:
    """Return the folder, module name and conftests of an author's file."""
    file = Path(path)
    folders = list(_folders(file.parent))
    names = [folder.name for folder in reversed(folders[:-1])]
    conftests = tuple(_conftests(folders))
    return AuthorFile(folders[-1], ".".join([*names, file.stem]), conftests)


def _folders(folder: Path) -> Iterator[Path]:
    """Yield the file's folder, then its parents up to the one above the outermost package."""
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
