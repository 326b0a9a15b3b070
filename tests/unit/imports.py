"""Reads the source as design.md's dependency rules see it; nothing is imported."""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

OURS = ("agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient")
BUILT = "reportclient/build"
"""What pip leaves in a checkout from which it installed."""
MAY_USE = {
    "agent": ("agent", "drivers", "reportclient"),
    "compute_registry": ("compute_registry", "agent", "reportclient"),
    "computectl": ("computectl", "agent", "drivers", "reportclient"),
    "driverkit": ("driverkit", "agent", "computectl", "drivers", "reportclient"),
    "drivers": (
        *("drivers", "reportclient.model", "reportclient.provider_tree"),
        "reportclient.plain_text",
    ),
    "reportclient": ("reportclient",),
}
# Third-party libraries and the files that may import them.
DOORS: Mapping[str, tuple[str, ...]] = {
    "cliff": ("computectl/*",),
    "jsonschema": ("agent/provider_config/entries.py", "compute_registry/rest/request.py"),
    "keystoneauth1": (
        "reportclient/http.py",
        "agent/placement.py",
        "compute_registry/keystone.py",
    ),
    "requests": ("reportclient/http.py",),
    "tenacity": ("reportclient/root.py",),
    "urllib3": ("reportclient/http.py",),
    "jinja2": ("compute_registry/page/*",),
    "libvirt": ("drivers/libvirt/connection/host.py",),
    "markupsafe": ("compute_registry/page/*",),
    "os_resource_classes": ("*",),
    "os_traits": ("*",),
    "oslo_config": (
        "agent/config.py",
        "agent/main.py",
        "agent/bus/messaging.py",
        "compute_registry/config.py",
        "driverkit/host.py",
        "*opts.py",
    ),
    "oslo_log": ("agent/reporting/logs.py",),
    "alembic": ("compute_registry/database/*",),
    "flask": ("compute_registry/*",),
    "keystonemiddleware": ("compute_registry/*",),
    "microversion_parse": ("compute_registry/rest/*",),
    "oslo_db": ("compute_registry/database/*",),
    "oslo_context": ("compute_registry/*",),
    "oslo_middleware": ("compute_registry/*",),
    "oslo_policy": ("compute_registry/*",),
    "oslo_reports": ("agent/reporting/guru.py",),
    "oslo_messaging": ("agent/bus/messaging.py",),
    "oslo_service": ("agent/bus/messaging.py",),
    "sqlalchemy": ("compute_registry/database/*", "compute_registry/store.py"),
    "webob": ("compute_registry/*",),
    "werkzeug": ("compute_registry/*",),
    "placement": ("driverkit/placement/child.py",),
    "prometheus_client": ("agent/metrics/*", "compute_registry/metrics.py"),
    "pytest": ("driverkit/contract.py", "driverkit/installed.py"),
    "stevedore": ("drivers/loader.py",),
    "waitress": ("driverkit/placement/child.py", "compute_registry/*"),
    "yaml": ("drivers/yaml_file.py",),
}
PURE = (
    "reportclient/forms.py",
    "reportclient/model.py",
    "reportclient/snapshot.py",
    "reportclient/live_provider.py",
    "reportclient/provider_tree.py",
    "reportclient/claims.py",
    "reportclient/names.py",
    "reportclient/plain_text.py",
    "reportclient/errors.py",
    "reportclient/plan.py",
    "reportclient/diff.py",
    "reportclient/reshape.py",
    "reportclient/view.py",
    "reportclient/candidates/__init__.py",
    "reportclient/candidates/answers.py",
    "reportclient/candidates/request.py",
    "reportclient/candidates/text.py",
    "agent/ownership/ledger.py",
    "agent/ownership/placing.py",
    "agent/ownership/policy.py",
    "agent/ownership/settle.py",
    "agent/ownership/statement.py",
    "agent/provider_config/asserted.py",
    "agent/period/traits.py",
    "agent/provider_config/entries.py",
    "agent/bus/errors.py",
    "agent/bus/incoming.py",
    "computectl/asking/constraints.py",
    "agent/period/attach.py",
    "agent/bus/caller.py",
    "agent/bus/signing.py",
    "agent/registry/checks.py",
    "agent/registry/observed_service.py",
    "agent/registry/record.py",
    "agent/registry/wire.py",
    "agent/reporting/changes.py",
    "agent/reporting/reports.py",
    "agent/reporting/trait_groups.py",
    "agent/switching/machine.py",
    "agent/registry/errors.py",
    "reportclient/request_filter.py",
    "drivers/abilities.py",
    "drivers/errors.py",
    "drivers/inventory.py",
    "drivers/yaml_file.py",
    "drivers/libvirt/documents.py",
    "drivers/libvirt/facts/topology.py",
    "drivers/libvirt/facts/numa.py",
    "drivers/libvirt/tree/reported.py",
    "drivers/reallocate.py",
    "drivers/libvirt/tree/children.py",
    "drivers/libvirt/tree/moving.py",
    "drivers/libvirt/devices/device_spec.py",
    "drivers/libvirt/devices/vgpu.py",
    "drivers/libvirt/devices/pci.py",
    "drivers/libvirt/devices/pci_devices.py",
    "drivers/libvirt/devices/pools.py",
)
IMPURE_MODULES = frozenset(
    "asyncio http io logging multiprocessing os pathlib queue random secrets select "
    "shutil signal socket sqlite3 subprocess sys tempfile threading time urllib".split()
)
PURE_PARTS = frozenset({"urllib.parse"})
"""Of impure libraries: it only turns texts into texts."""
IMPURE_CALLS = frozenset({"open", "print", "input", "exec", "eval"})
CLOCKS = frozenset({"now", "utcnow", "today"})
"""Of datetime and date, whose values are only numbers with names otherwise."""
MAY_BE_LATE = {
    "agent/reporting/guru.py": ("oslo_reports",),
    "drivers/libvirt/*": ("libvirt", "libvirt_qemu"),
    "computectl/*": ("",),
    "agent/main.py": ("agent",),
    "agent/provider_config/entries.py": ("jsonschema", "drivers"),
    "agent/switching/switching.py": ("agent",),
    "compute_registry/service.py": ("agent", "compute_registry"),
    "compute_registry/database/*": ("compute_registry",),
}
CONSTANT = re.compile(r"(_*[A-Z][A-Z0-9_]*|_*[A-Z][A-Za-z0-9]*|__\w+__)$")
EMPTY_CONTAINERS = frozenset({"dict", "list", "set", "deque", "defaultdict", "OrderedDict"})


@dataclass(frozen=True)
class Violation:
    path: str
    line: int
    rule: int
    text: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: rule {self.rule}: {self.text}"


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    late: bool
    """Inside a function."""

    @property
    def library(self) -> str:
        return self.module.partition(".")[0]


@dataclass(frozen=True)
class Source:
    path: str
    tree: ast.Module

    @property
    def says_it_is_pure(self) -> bool:
        """By the first paragraph of its docstring."""
        first = (ast.get_docstring(self.tree) or "").partition("\n\n")[0]
        return re.search(r"\bPure(\.|, and)", first) is not None

    @property
    def package(self) -> str:
        return self.path.partition("/")[0]

    def matches(self, patterns: tuple[str, ...]) -> bool:
        return any(fnmatch(self.path, pattern) for pattern in patterns)

    def imports(self) -> list[Import]:
        return [found for node, late in _walk(self.tree) for found in self._of(node, late)]

    def _of(self, node: ast.AST, late: bool) -> Iterator[Import]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(alias.name, node.lineno, late)
        elif isinstance(node, ast.ImportFrom):
            base = self._absolute(node)
            if base in OURS:  # from reportclient import model
                for alias in node.names:
                    yield Import(f"{base}.{alias.name}", node.lineno, late)
            else:
                yield Import(base, node.lineno, late)

    def _absolute(self, node: ast.ImportFrom) -> str:
        if not node.level:
            return node.module or ""
        parts = PurePosixPath(self.path).parts[: -node.level]
        return ".".join([*parts, *([node.module] if node.module else [])])


def parsed(path: Path) -> ast.Module:
    """Parse a file again if another thread parsed meanwhile, as one does that formats a traceback.

    CPython 3.11 counts the depth of both together, and raises SystemError.
    """
    for _ in range(9):
        with suppress(SystemError):
            return ast.parse(path.read_bytes(), str(path))
    return ast.parse(path.read_bytes(), str(path))


def read_sources(root: Path) -> list[Source]:
    return [
        Source(path.relative_to(root).as_posix(), parsed(path))
        for package in OURS
        for path in sorted((root / package).rglob("*.py"))
        if not path.is_relative_to(root / BUILT)
    ]


def direction(source: Source) -> Iterator[Violation]:
    """Rule 1: driverkit -> agent -> drivers -> reportclient; drivers see the model and the tree."""
    allowed = MAY_USE.get(source.path, MAY_USE[source.package])
    for found in source.imports():
        if found.library in OURS and not _within(found.module, allowed):
            text = f"{source.package} may not import {found.module}, only {', '.join(allowed)}"
            yield Violation(source.path, found.line, 1, text)


def doors(source: Source) -> Iterator[Violation]:
    """Rule 2: one third-party library, one door."""
    for found in source.imports():
        name = found.library
        if name in OURS or name in sys.stdlib_module_names:
            continue
        if name not in DOORS:
            text = f"{name} has no door; name one in tests/unit/imports.py"
            yield Violation(source.path, found.line, 2, text)
        elif not source.matches(DOORS[name]):
            text = f"{name} is for {', '.join(DOORS[name])} only"
            yield Violation(source.path, found.line, 2, text)


def purity(source: Source) -> Iterator[Violation]:
    """Rule 3: pure modules do no I/O, log nothing, read no clock, and lean on pure ones."""
    if not source.matches(PURE):
        return
    typed = _for_types_only(source.tree)
    for found in source.imports():
        if found.line in typed:
            continue
        ours = found.library in OURS
        impure = found.library in IMPURE_MODULES and found.module not in PURE_PARTS
        if impure or (ours and not _is_pure(found.module)):
            text = f"this module is pure and may not import {found.module}"
            yield Violation(source.path, found.line, 3, text)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            if node.func.id in IMPURE_CALLS:
                text = f"this module is pure and may not call {node.func.id}()"
                yield Violation(source.path, node.lineno, 3, text)
        elif isinstance(node, ast.Attribute) and node.attr in CLOCKS and _is_date(node.value):
            text = f"this module is pure and may not look at the clock by {node.attr}"
            yield Violation(source.path, node.lineno, 3, text)


def _is_date(value: ast.expr) -> bool:
    return getattr(value, "attr", getattr(value, "id", "")) in ("date", "datetime")


def state(source: Source) -> Iterator[Violation]:
    """Rule 4: no late imports, and no module state beyond LOG and constants."""
    if source.matches(("*/migrations/*",)):
        return  # Alembic reads module variables
    for found in source.imports():
        if found.late and not _may_be_late(source, found):
            text = f"{found.module} is imported inside a function"
            yield Violation(source.path, found.line, 4, text)
    for node, inside in _walk(source.tree):
        if isinstance(node, ast.Global):
            text = f"'global {', '.join(node.names)}': module state"
            yield Violation(source.path, node.lineno, 4, text)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and not inside:
            yield from _assignment(source, node)


RULES: Mapping[str, Callable[[Source], Iterator[Violation]]] = {
    "direction": direction,
    "doors": doors,
    "purity": purity,
    "state": state,
}


def _assignment(source: Source, node: ast.Assign | ast.AnnAssign) -> Iterator[Violation]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        for name in ast.walk(target):
            if isinstance(name, ast.Name) and not CONSTANT.match(name.id):
                text = f"{name.id} is neither LOG nor a constant"
                yield Violation(source.path, node.lineno, 4, text)
    if _is_empty_container(node.value):
        text = "an empty container is there to be filled: module state"
        yield Violation(source.path, node.lineno, 4, text)


def _is_empty_container(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Dict):
        return not value.keys
    if isinstance(value, ast.List):
        return not value.elts
    if not isinstance(value, ast.Call):
        return False
    name = getattr(value.func, "id", getattr(value.func, "attr", ""))
    filled = [item for item in value.args if not isinstance(item, ast.Name) or name == "deque"]
    return name in EMPTY_CONTAINERS and not filled


def _may_be_late(source: Source, found: Import) -> bool:
    return any(
        fnmatch(source.path, pattern) and (found.library in libraries or "" in libraries)
        for pattern, libraries in MAY_BE_LATE.items()
    )


def _is_pure(module: str) -> bool:
    path = module.replace(".", "/")
    return f"{path}.py" in PURE or f"{path}/__init__.py" in PURE


def _for_types_only(tree: ast.Module) -> set[int]:
    """Lines below ``if TYPE_CHECKING``: nothing is imported there when the program runs."""
    guarded = (
        node
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and getattr(node.test, "id", "") == "TYPE_CHECKING"
    )
    return {line for node in guarded for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def _within(module: str, allowed: tuple[str, ...]) -> bool:
    return any(module == name or module.startswith(f"{name}.") for name in allowed)


def _walk(tree: ast.Module) -> Iterator[tuple[ast.AST, bool]]:
    """Every node, and whether it is inside a function or a class body of one.

    Class bodies at module level count as outside for imports, and hold no module state.
    """
    waiting: list[tuple[ast.AST, bool, bool]] = [(node, False, False) for node in tree.body]
    while waiting:
        node, in_function, in_class = waiting.pop()
        is_assignment = isinstance(node, ast.Assign | ast.AnnAssign)
        yield node, in_function or (in_class and is_assignment)
        deeper = in_function or isinstance(
            node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
        )
        inner = in_class or isinstance(node, ast.ClassDef)
        waiting += [(child, deeper, inner) for child in ast.iter_child_nodes(node)]
