"""``.. start-errors::`` lists the errors that end a start and that its page does not explain.

They are read from the code: what raises an error of ``agent.check.LASTING`` that an operator has to
correct, and what refuses the value of an option or the class of a driver.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.parsers.rst import Directive

from agent.check import LASTING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from sphinx.application import Sphinx

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("agent", "compute_registry", "drivers", "reportclient")
AT_START = {kind.__name__ for kind in LASTING} | {
    *("DriverLoadFailed", "DriverNotFound"),
    "_error",  # creates an IdentityError
}
LATER = {"DriverError", "TransportUnavailable"}
"""Those of ``LASTING`` that are mostly raised later."""
READERS = (
    *("agent/opts.py", "agent/placement.py", "agent/bus/messaging.py"),
    *("drivers/opts.py", "drivers/inventory.py", "drivers/libvirt/devices/device_spec.py"),
    *("drivers/libvirt/devices/vgpu.py", "drivers/libvirt/facts/pmem.py"),
    *("drivers/libvirt/facts/cpu_features.py", "drivers/libvirt/facts/disk.py"),
    *("drivers/libvirt/facts/cpus_and_memory.py", "drivers/libvirt/facts/numa.py"),
)
"""Modules whose ``ValueError`` is a ``ConfigError`` or ``DriverLoadFailed`` with its text."""
CLASSES = "drivers/loader.py"
"""The module whose functions yield or return what is wrong with a driver's class."""


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("start-errors", StartErrors)
    return {"parallel_read_safe": True}


class StartErrors(Directive):
    """A list of the messages, ``…`` for what differs."""

    def run(self) -> list[nodes.Node]:
        text = Path(self.state.document.current_source).read_text(encoding="utf-8")
        texts = (nodes.paragraph("", "", nodes.literal("", each)) for each in unexplained(text))
        return [nodes.bullet_list("", *(nodes.list_item("", each) for each in texts))]


def unexplained(page: str) -> list[str]:
    """Return the errors that no entry of the page is about."""
    terms = (re.findall("``(.+?)``", line) for line in re.findall(r"(?m)^``.+``$", page))
    explained = [pieces(term) for line in terms for term in line]
    return [
        error
        for error in start_errors()
        if not any(all(piece in error for piece in each) for each in explained)
    ]


def pieces(term: str) -> list[str]:
    """Return what a message has between the names and numbers of a host."""
    return [each.strip() for each in term.split("…") if each.strip()]


def as_pattern(text: str) -> str:
    """Return the regular expression of the messages that a text with ``…`` stands for."""
    return re.escape(text).replace("…", ".*")


def start_errors() -> list[str]:
    """Return the messages, ``…`` for what differs; without those that only pass on another text."""
    found = set[str]()
    for path in (path for name in PACKAGES for path in (REPOSITORY / name).rglob("*.py")):
        module = path.relative_to(REPOSITORY).as_posix()
        tree = ast.parse(path.read_text(encoding="utf-8"))
        constants = _assigned(tree.body)
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef):
                found.update(_of_function(node, module, constants))
    texts = {re.sub("(… ?)+…", "…", text) for text in found}
    texts = {text for text in texts if len(re.findall(r"[a-z]{2,}", text)) > 1}
    shortest = [
        text
        for text in texts
        if not any(re.fullmatch(as_pattern(each), text) for each in texts - {text})
    ]
    return sorted(shortest, key=lambda text: text.lstrip("…:[]-; ").lower())


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, ast.expr]:
    return {
        target.id: node.value
        for node in nodes
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }


def _of_function(
    function: ast.FunctionDef, module: str, constants: dict[str, ast.expr]
) -> Iterator[str]:
    assigned = constants | _assigned(ast.walk(function))
    kinds = AT_START - LATER | ({"ValueError"} if module in READERS else set())
    for node in ast.walk(function):
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and node.exc.args:
            name = getattr(node.exc.func, "id", getattr(node.exc.func, "attr", ""))
            text = _text(node.exc.args[0], assigned)
            if name in kinds and not (name == "ValueError" and text.startswith("a ")):
                yield text  # "a document …" is one of the hypervisor's
        elif module == CLASSES and (
            isinstance(node, ast.Yield)
            or (isinstance(node, ast.Return) and function.name in NAMING)
        ):
            yield _text(node.value, assigned)


NAMING = ("not_found", "_no_subclass", "_version_problem")
"""Functions of ``CLASSES`` that return such a text."""


def _text(node: ast.AST | None, assigned: dict[str, ast.expr]) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_text(each, assigned) for each in node.values)
    if isinstance(node, ast.FormattedValue) and isinstance(node.value, ast.Name):
        return _text(node.value, assigned)
    if isinstance(node, ast.Name) and isinstance(
        assigned.get(node.id), ast.Constant | ast.JoinedStr
    ):
        return _text(assigned[node.id], assigned)
    return "…"
