"""Faults thought up by readers of the code, each with the behaviour that it loses.

A file of ``tests/mutants`` has those of one boundary, with the tests that stand there.  ``old``
is the text of ``file`` that ``new`` takes the place of; it occurs once.
"""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


@dataclass(frozen=True, slots=True)
class Mutant:
    """One fault; ``tests`` are the paths of the tests at its boundary."""

    boundary: str
    loses: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def apply(self, root: Path) -> None:
        """Write the fault into a copy of the repository.

        :raises ValueError: the text that it replaces does not occur exactly once.
        """
        path = root / self.file
        text = path.read_text()
        if text.count(self.old) != 1 or self.old == self.new:
            raise ValueError(
                f"tests/mutants/{self.boundary}.toml, {self.loses!r}: old occurs "
                f"{text.count(self.old)} times in {self.file}, and has to occur once"
            )
        path.write_text(text.replace(self.old, self.new))


def boundaries() -> list[str]:
    """Return the names of the boundaries that have mutants."""
    return sorted(path.stem for path in HERE.glob("*.toml"))


def mutants_of(boundary: str) -> Iterator[Mutant]:
    """Yield the mutants of one boundary, as its file has them."""
    table = tomllib.loads((HERE / f"{boundary}.toml").read_text())
    for entry in table["mutant"]:
        file = entry.get("file", table.get("file", ""))
        tests = tuple(entry.get("tests", table["tests"]))
        yield Mutant(boundary, entry["loses"], file, entry["old"], entry["new"], tests)
