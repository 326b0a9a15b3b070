"""``computectl driver new``: write a small package with a working driver."""

import argparse
import importlib.util
import keyword
import re
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from computectl.shared.commands import DrawnOrListed, Table, argument
from computectl.shared.errors import CommandError
from computectl.shared.screen import Screen
from drivers import loader

KINDS = {
    "devices": (("common", "devices"), "the local disks of a machine"),
    "many-nodes": (
        ("common", "described", "many-nodes"),
        "many nodes, none of them this host",
    ),
    "reshape": (
        ("common", "described", "reshape"),
        "cards, whose inventory was on the root before",
    ),
}
"""By kind: its folders of templates, and what its driver reports."""
TEMPLATES = Path(__file__).with_name("templates")
SUFFIX = ".in"
WELL_FORMED = re.compile(r"[a-z][a-z0-9_]*[a-z0-9]")


@dataclass(frozen=True, slots=True)
class Written:
    """A package that was written."""

    name: str
    directory: Path
    files: list[str]


class NewDriver(DrawnOrListed[Written]):
    """Create a package with a new driver that works and has tests.

    Existing files are not overwritten.
    """

    examples = """\
  computectl driver new mydriver                       into ./mydriver
  computectl driver new mydriver --directory src/mine
  computectl driver new mynodes --kind many-nodes      or reshape
"""

    arguments = (
        argument(
            "name",
            metavar="NAME",
            help="name of the driver, as in compute_driver, and of its Python package",
        ),
        argument(
            "--kind",
            choices=sorted(KINDS),
            default="devices",
            help="the template: devices below this host (the default), many nodes, or inventory "
            "that moves together with its allocations",
        ),
        argument(
            "--directory",
            type=Path,
            metavar="DIR",
            help="directory to create; default: ./NAME",
        ),
    )

    def execute(self, options: argparse.Namespace) -> Written:
        """Write the package.  :raises CommandError: the name or directory can't be used."""
        name: str = options.name
        problem = name_problem(name)
        if problem is not None:
            raise CommandError(f"{name!r} can't be the name of a driver: {problem[0]}", problem[1])
        directory = options.directory or Path(name)
        if directory.exists() or directory.is_symlink():
            raise CommandError(f"{directory} already exists", "name another --directory")
        try:
            return Written(name, directory, _write(name, directory, options.kind))
        except OSError as err:
            raise CommandError(
                f"{err.filename or directory}: {err.strerror}", "nothing was written"
            ) from err

    def draw(self, answer: Written, screen: Screen, options: argparse.Namespace) -> Iterator[str]:
        """Yield the list of files and the next steps."""
        yield screen.paint(f"{answer.directory}/", "bold")
        yield from (f"  {file}" for file in answer.files)
        run = f"  compute-agent --dev --once --config-file {answer.name}.conf"
        yield from (
            "\nNext:",
            f"  cd {answer.directory}",
            "  python -m pip install --no-deps --no-build-isolation --editable .",
            "  python -m pytest",
        )
        if options.kind == "reshape":
            yield f"{run} --config-file before.conf    # as its earlier release"
            yield f"{run}    # the reshape"
        else:
            yield run

    def table(self, answer: Written) -> Table:
        """Return a row for each file."""
        return {"path": lambda name: str(answer.directory / name)}, answer.files


def name_problem(name: str) -> tuple[str, str] | None:
    """Return why a name is invalid and the next step; ``None`` if it is valid."""
    if not WELL_FORMED.fullmatch(name) or keyword.iskeyword(name):
        plain = re.sub(r"[^a-z0-9_]+", "_", name.lower()).lstrip("_0123456789").rstrip("_")
        near = f", as in {plain}" if plain and plain != name and name_problem(plain) is None else ""
        return (
            "it can't be the name of a Python package",
            f"use lower-case letters, digits and _, beginning with a letter{near}",
        )
    installed = loader.installed().get(name)
    if installed is not None:
        return f"a driver of this name is installed: {installed}", "choose another name"
    # The package has a folder tests, too.
    if name == "tests" or importlib.util.find_spec(name) is not None:
        return f"Python has a module {name} already", "choose another name"
    return None


def class_name(name: str) -> str:
    """Return ``MyDisksDriver`` for ``my_disks``, ``MyDriver`` for ``mydriver``."""
    stem = name.removesuffix("driver").strip("_")
    return "".join(part.capitalize() for part in stem.split("_")) + "Driver"


def _write(name: str, directory: Path, kind: str) -> list[str]:
    """Write to a temporary directory and rename it, so that no partial package is left."""
    values = {
        "@NAME@": name,
        "@CLASS@": class_name(name),
        "@UPPER@": name.upper(),
        "@WHAT@": KINDS[kind][1],
        "@DISTRIBUTION@": name.replace("_", "-"),
        "@UNDERLINE@": "=" * len(name),
    }
    parent = directory.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=parent) as temporary:
        package = Path(temporary) / directory.name
        files = sorted(file for part in KINDS[kind][0] for file in _copied(part, package, values))
        package.rename(directory)
    return files


def _copied(part: str, target: Path, values: Mapping[str, str]) -> Iterator[str]:
    """Copy a folder of templates, and yield the written paths."""
    for template in (TEMPLATES / part).rglob(f"*{SUFFIX}"):
        parts = template.relative_to(TEMPLATES / part).parts
        path = Path(*(_renamed(name, values["@NAME@"]) for name in parts))
        text = template.read_text(encoding="utf-8")
        for placeholder, value in values.items():
            text = text.replace(placeholder, value)
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text, encoding="utf-8")
        yield path.as_posix()


def _renamed(name: str, driver: str) -> str:
    plain = name.removesuffix(SUFFIX).replace("NAME", driver)
    return f".{plain}" if plain == "gitignore" else plain
