"""Reads the source as design.md's dependency rules see it; nothing is imported."""

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

OURS = ("agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient")
BUILT = "reportclient/build"
"""What pip leaves in a checkout from which it installed."""
MAY_USE = {
    "agent": ("agent", "drivers", "reportclient"),
    "compute_registry": ("compute_registry", "agent", "drivers.extras", "reportclient"),
    "computectl": (
        *("computectl", "agent", "drivers", "reportclient", "compute_registry.control"),
        *("compute_registry.observed_placement", "compute_registry.observed_service"),
    ),
    "driverkit": ("driverkit", "agent", "computectl", "drivers", "reportclient"),
    "drivers": (
        *("drivers", "reportclient.model", "reportclient.provider_tree"),
        "reportclient.plain_text",
    ),
    "reportclient": ("reportclient",),
}
DOORS: Mapping[str, str] = {
    "*": "os_resource_classes os_traits",
    "*opts.py": "oslo_config",
    "agent/bus/messaging.py": "oslo_config oslo_messaging oslo_service",
    "agent/config.py": "oslo_config",
    "agent/main.py": "oslo_config",
    "agent/metrics/*": "prometheus_client",
    "agent/placement.py": "keystoneauth1",
    "agent/provider_config/entries.py": "jsonschema",
    "agent/reporting/guru.py": "oslo_reports",
    "agent/reporting/logs.py": "oslo_log",
    "compute_registry/*": "flask keystonemiddleware oslo_context oslo_middleware oslo_policy "
    "waitress webob werkzeug",
    "compute_registry/config.py": "oslo_config",
    "compute_registry/database/*": "oslo_db sqlalchemy",
    "compute_registry/keystone.py": "keystoneauth1",
    "compute_registry/metrics.py": "prometheus_client",
    "compute_registry/page/*": "jinja2 markupsafe",
    "compute_registry/rest/*": "microversion_parse",
    "compute_registry/store.py": "sqlalchemy",
    "computectl/*": "cliff",
    "driverkit/contract.py": "pytest",
    "driverkit/host.py": "oslo_config",
    "driverkit/installed.py": "pytest",
    "driverkit/placement/child.py": "placement waitress",
    "drivers/libvirt/connection/host.py": "libvirt",
    "drivers/loader.py": "stevedore",
    "drivers/yaml_file.py": "yaml",
    "reportclient/http.py": "keystoneauth1 requests urllib3",
    "reportclient/root.py": "tenacity",
}
"""Third-party libraries that files may import."""
ALSO_PURE = (
    "drivers/errors.py",
    "drivers/inventory.py",
    "drivers/libvirt/devices/device_spec.py",
    "drivers/libvirt/devices/p*.py",
    "drivers/libvirt/devices/vgpu.py",
    "drivers/libvirt/documents.py",
    "drivers/libvirt/facts/numa.py",
    "drivers/libvirt/facts/topology.py",
    "drivers/libvirt/tree/children.py",
    "drivers/libvirt/tree/moving.py",
    "drivers/libvirt/tree/reported.py",
    "drivers/reallocate.py",
    "drivers/yaml_file.py",
    "reportclient/errors.py",
    "reportclient/live_provider.py",
    "reportclient/provider_tree.py",
    "reportclient/snapshot.py",
)
"""Pure modules whose docstrings do not say so."""
IMPURE_MODULES = frozenset(
    "asyncio http io logging multiprocessing os pathlib queue random secrets select "
    "shutil signal socket sqlite3 subprocess sys tempfile threading time urllib".split()
)
PURE_PARTS = frozenset({"urllib.parse"})
"""Of impure libraries: it only turns texts into texts."""
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval"})
CLOCKS = frozenset({"now", "utcnow", "today"})
"""Of datetime and date, whose values are only numbers with names otherwise."""
CONSTANT = re.compile(r"(_*[A-Z][A-Z0-9_]*|_*[A-Z][A-Za-z0-9]*|__\w+__)$")
EMPTY_CONTAINERS = frozenset({"dict", "list", "set", "deque", "defaultdict", "OrderedDict"})


Breaches = Iterator[tuple[int, str]]
"""Lines, and what is wrong there."""


@dataclass(frozen=True)
class Import:
    module: str
    line: int

    @property
    def library(self) -> str:
        """Empty if the import is relative."""
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class Source:
    path: str
    tree: ast.Module

    @property
    def is_pure(self) -> bool:
        """By the first paragraph of its docstring, or by ``ALSO_PURE``."""
        first = (ast.get_docstring(self.tree) or "").partition("\n\n")[0]
        return bool(re.search(r"\bPure(\.|, and)", first)) or self.matches(*ALSO_PURE)

    @property
    def package(self) -> str:
        return self.path.partition("/")[0]

    def matches(self, *patterns: str) -> bool:
        return any(fnmatch(self.path, pattern) for pattern in patterns)

    def imports(self) -> Iterator[Import]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                yield from (Import(alias.name, node.lineno) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                base = "." * node.level + (node.module or "")
                names = [f"{base}.{alias.name}" for alias in node.names] if base in OURS else [base]
                yield from (Import(name, node.lineno) for name in names)


def parsed(path: Path) -> ast.Module:
    """Parse a file again if another thread parsed meanwhile, as one does that formats a traceback.

    CPython 3.11 counts the depth of both together, and raises SystemError.
    """
    for _ in range(9):
        with suppress(SystemError):
            return ast.parse(path.read_bytes(), str(path))
    return ast.parse(path.read_bytes(), str(path))


@cache
def our_sources() -> list[Source]:
    return [
        Source(path.relative_to(ROOT).as_posix(), parsed(path))
        for package in OURS
        for path in sorted((ROOT / package).rglob("*.py"))
        if not path.is_relative_to(ROOT / BUILT)
    ]


@cache
def pure_modules() -> set[str]:
    paths = (source.path for source in our_sources() if source.is_pure)
    return {path.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for path in paths}


def direction(source: Source) -> Breaches:
    """Rule 1: driverkit -> agent -> drivers -> reportclient; drivers see the model and the tree."""
    allowed = MAY_USE[source.package]
    for found in source.imports():
        within = any(f"{found.module}.".startswith(f"{name}.") for name in allowed)
        if found.library in OURS and not within:
            yield (
                found.line,
                f"{source.package} may not import {found.module}, only {', '.join(allowed)}",
            )


def doors(source: Source) -> Breaches:
    """Rule 2: one third-party library, one door."""
    here = {n for door, names in DOORS.items() if source.matches(door) for n in names.split()}
    for found in source.imports():
        if found.library not in here.union(OURS, sys.stdlib_module_names):
            yield found.line, f"{found.module} has no door here: see DOORS in tests/unit/imports.py"


def purity(source: Source) -> Breaches:
    """Rule 3: pure modules do no I/O, log nothing, read no clock, and lean on pure ones."""
    if not source.is_pure:
        return
    typed = _for_types_only(source.tree)
    for found in source.imports():
        impure = found.library in IMPURE_MODULES and found.module not in PURE_PARTS
        if found.library in OURS:
            impure = found.module not in pure_modules()
        if impure and found.line not in typed:
            yield found.line, f"this module is pure and may not import {found.module}"
    for node in ast.walk(source.tree):
        match node:
            case ast.Call(func=ast.Name(name)) if name in IMPURE_CALLS:
                yield node.lineno, f"this module is pure and may not call {name}()"
            case ast.Attribute(
                attr=name,
                value=ast.Name("date" | "datetime") | ast.Attribute(attr="date" | "datetime"),
            ) if name in CLOCKS:
                yield node.lineno, f"this module is pure and may not look at the clock by {name}"
            case _:
                pass


def state(source: Source) -> Breaches:
    """Rule 4: no module state beyond LOG and constants.  Ruff finds ``global`` and late imports."""
    waiting: list[ast.AST] = [*source.tree.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names = [name for target in targets for name in ast.walk(target)]
            for name in names:
                if isinstance(name, ast.Name) and not CONSTANT.match(name.id):
                    yield node.lineno, f"{name.id} is neither LOG nor a constant"
            if _is_empty_container(node.value):
                yield node.lineno, "an empty container is there to be filled: module state"
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            waiting += ast.iter_child_nodes(node)


RULES: Mapping[str, Callable[[Source], Breaches]] = {
    "direction": direction,
    "doors": doors,
    "purity": purity,
    "state": state,
}


def _is_empty_container(value: ast.expr | None) -> bool:
    match value:
        case ast.Dict(keys=[]) | ast.List(elts=[]):
            return True
        case ast.Call(func=ast.Name(name) | ast.Attribute(attr=name), args=args):
            filled = [item for item in args if not isinstance(item, ast.Name) or name == "deque"]
            return name in EMPTY_CONTAINERS and not filled
        case _:
            return False


def _for_types_only(tree: ast.Module) -> set[int]:
    """Lines of imports below ``if TYPE_CHECKING``, which the program does not run."""
    below = (
        ast.walk(node)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    )
    return {each.lineno for nodes in below for each in nodes if isinstance(each, ast.stmt)}
