"""A driver's source: which of it the agent would ever reach, and what its names stand for.

Pure: nothing is imported or run.  Reaching is by name: ``self.x``, ``x(…)`` or ``y.x``
in code that is reached reaches every function ``x`` of the file.  That may take in too
much, and leaves out nothing that is called in the usual ways.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from driverkit.porting.nova_api import CALLED, NEWEST, OLDER_METHODS

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class DriverSource:
    """``reached`` are the functions that run here, ``classes`` those that are drivers."""

    module: ast.Module
    functions: tuple[Function, ...]
    reached: frozenset[Function]
    classes: tuple[ast.ClassDef, ...]
    aliases: Mapping[str, str]
    """``{"exception": "nova.exception"}``: what names of the file stand for."""

    @classmethod
    def parse(cls, text: str) -> DriverSource:
        """:raises SyntaxError: with its line."""
        module = ast.parse(text)
        functions = tuple(_functions(module))
        return cls(
            module, functions, _reached(module, functions), _drivers(module), _aliases(module)
        )

    def alive(self) -> Iterator[ast.AST]:
        """Every node that runs here; functions that are not reached are left out whole."""
        yield from _alive(self.module, self.reached)

    def dotted(self, node: ast.AST) -> str | None:
        """``exception.ReshapeNeeded`` as ``nova.exception.ReshapeNeeded``; else ``None``."""
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.aliases:
            return None
        return ".".join([self.aliases[node.id], *reversed(parts)])


def methods(driver: ast.ClassDef) -> dict[str, Function]:
    """By name, as the class defines them."""
    return {each.name: each for each in driver.body if isinstance(each, Function)}


def _functions(node: ast.AST) -> Iterator[Function]:
    """Of the module and its classes, not those inside other functions."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function):
            yield child
        elif not isinstance(child, ast.Lambda):
            yield from _functions(child)


def _alive(node: ast.AST, reached: frozenset[Function]) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, Function) and not isinstance(node, Function):
            if child not in reached:
                continue
            yield child
            yield from ast.walk(child)
        else:
            yield child
            yield from _alive(child, reached)


def _drivers(module: ast.Module) -> tuple[ast.ClassDef, ...]:
    found = (node for node in ast.walk(module) if isinstance(node, ast.ClassDef))
    return tuple(
        each
        for each in found
        if any(ast.unparse(base).endswith("ComputeDriver") for base in each.bases)
        or "get_available_nodes" in methods(each)
    )


def _reached(module: ast.Module, functions: tuple[Function, ...]) -> frozenset[Function]:
    by_name: dict[str, list[Function]] = {}
    for each in functions:
        by_name.setdefault(each.name, []).append(each)
    start = {name for name in CALLED if name in by_name}
    if NEWEST in start:
        start.difference_update(OLDER_METHODS)
    start |= {name for node in _alive(module, frozenset()) for name in _mentions(node)}
    todo, done = [*start], set[str]()
    while todo:
        name = todo.pop()
        if name in done or name not in by_name:
            continue
        done.add(name)
        for function in by_name[name]:
            todo += [said for node in ast.walk(function) for said in _mentions(node)]
    return frozenset(each for name in done for each in by_name[name])


def _mentions(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id


def _aliases(module: ast.Module) -> dict[str, str]:
    found: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                found[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                found[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in module.body:  # CONF = nova.conf.CONF
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            source = ast.unparse(node.value)
            root, _, rest = source.partition(".")
            if root in found and source.replace(".", "").replace("_", "").isalnum():
                found[node.targets[0].id] = f"{found[root]}.{rest}" if rest else found[root]
    return found
