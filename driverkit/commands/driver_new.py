"""``computectl driver new``: a small package with a driver that works."""

import argparse
import importlib.util
import keyword
import re
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from computectl.shared.commands import Offline, Table, argument
from computectl.shared.errors import CommandError
from computectl.shared.screen import Screen
from drivers import loader

KINDS = {
    "devices": (("common", "devices"), "the local disks of a machine"),
    "many-nodes": (("common", "described", "many-nodes"), "nodes that are none of them this host"),
    "nested": (("common", "described", "nested"), "NUMA cells, and the cards of each below it"),
    "reshape": (("common", "described", "reshape"), "cards, whose inventory was on the root once"),
}
"""By kind: the folders of templates that it is made of, and what it is about."""
TEMPLATES = Path(__file__).parents[1] / "templates"
SUFFIX = ".in"
OURS = frozenset(
    {"agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient", "tests"}
)
WELL_FORMED = re.compile(r"[a-z][a-z0-9_]*[a-z0-9]")


@dataclass(frozen=True, slots=True)
class Written:
    """A package as it was written."""

    name: str
    directory: Path
    files: list[str]


class NewDriver(Offline[Written]):
    """Create a package with a new driver that works and has tests.

    Existing files are not overwritten.
    """

    drawn = "text"
    examples = """\
  computectl driver new mydriver                       into ./mydriver
  computectl driver new mydriver --directory src/mine
  computectl driver new mynodes --kind many-nodes      or nested, reshape
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
            help="the template: devices below this host (the default), many nodes, "
            "devices below NUMA cells, or inventory that moves together with its allocations",
        ),
        argument(
            "--directory",
            type=Path,
            metavar="DIR",
            help="directory to create; default: ./NAME",
        ),
    )

    def execute_offline(self, options: argparse.Namespace) -> Written:
        """Write it.  :raises CommandError: the name or the folder can't be used."""
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

    def draw(self, answer: Written, screen: Screen, options: argparse.Namespace) -> str:  # noqa: ARG002
        """The files, and what to do next."""
        lines = [screen.paint(f"{answer.directory}/", "bold"), *(f"  {f}" for f in answer.files)]
        lines += [
            "",
            "Next:",
            f"  cd {answer.directory}",
            "  python -m pip install --no-deps --no-build-isolation --editable .",
            "  python -m pytest",
            f"  compute-agent --dev --once --config-file {answer.name}.conf",
        ]
        return "\n".join(lines)

    def table(self, answer: Written) -> Table:
        """A row for each file."""
        return ("path",), [[str(answer.directory / name)] for name in answer.files]


def name_problem(name: str) -> tuple[str, str] | None:
    """Why a driver can't be called so, and what to do; or ``None``."""
    if not WELL_FORMED.fullmatch(name) or keyword.iskeyword(name):
        plain = re.sub(r"[^a-z0-9_]+", "_", name.lower()).lstrip("_0123456789").rstrip("_")
        near = f", as in {plain}" if plain and plain != name and name_problem(plain) is None else ""
        return (
            "it is that of a Python package too",
            f"take small letters, digits and _, beginning with a letter{near}",
        )
    if name in OURS or name in sys.stdlib_module_names:
        return f"Python has a module {name} already", "take another"
    there = loader.installed().get(name)
    if there is not None:
        return f"a driver of this name is installed: {there}", "take another"
    if importlib.util.find_spec(name) is not None:
        return f"Python has a package {name} already", "take another"
    return None


def class_name(name: str) -> str:
    """``my_disks`` as ``MyDisksDriver``, ``mydriver`` as ``MyDriver``."""
    stem = name.removesuffix("driver").strip("_")
    return "".join(part.capitalize() for part in stem.split("_")) + "Driver"


def _write(name: str, directory: Path, kind: str) -> list[str]:
    """Beside it first, then in its place: what is half written is never there."""
    words = {
        "@NAME@": name,
        "@CLASS@": class_name(name),
        "@UPPER@": name.upper(),
        "@WHAT@": KINDS[kind][1],
        "@DISTRIBUTION@": name.replace("_", "-"),
        "@UNDERLINE@": "=" * len(name),
    }
    parent = directory.absolute().parent
    parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{directory.name}.", dir=parent) as workshop:
        made = Path(workshop) / directory.name
        files = sorted(one for part in KINDS[kind][0] for one in _copied(part, made, words))
        made.rename(directory)
    return files


def _copied(part: str, target: Path, words: Mapping[str, str]) -> Iterator[str]:
    """Copy a folder of templates; the paths that were written."""
    for template in (TEMPLATES / part).rglob(f"*{SUFFIX}"):
        parts = template.relative_to(TEMPLATES / part).parts
        path = Path(*(_renamed(name, words["@NAME@"]) for name in parts))
        text = template.read_text(encoding="utf-8")
        for word, meaning in words.items():
            text = text.replace(word, meaning)
        (target / path).parent.mkdir(parents=True, exist_ok=True)
        (target / path).write_text(text, encoding="utf-8")
        yield path.as_posix()


def _renamed(name: str, driver: str) -> str:
    plain = name.removesuffix(SUFFIX).replace("NAME", driver)
    return f".{plain}" if plain == "gitignore" else plain
