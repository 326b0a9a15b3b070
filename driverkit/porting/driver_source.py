"""The source of a driver: the functions that the agent would reach, and the meaning of names.

Pure: nothing is imported or run.  Reachability is by name: ``self.x``, ``x(…)`` or ``y.x`` in a
reached function reaches every function ``x`` of the file.  So too many functions may count as
reached, and none is missed that is called in a usual way.
"""

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeGuard

from driverkit.porting.nova_api import CALLED, NEWEST, OLDER_METHODS

Function = ast.FunctionDef | ast.AsyncFunctionDef
Comprehension = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True, slots=True)
class DriverSource:
    """A parsed file; ``reached``: the functions that run here, ``classes``: the drivers."""

    module: ast.Module
    functions: tuple[Function, ...]
    reached: frozenset[Function]
    classes: tuple[ast.ClassDef, ...]
    aliases: Mapping[str, str]
    """Dotted names by alias, such as ``{"exception": "nova.exception"}``."""
    hidden: frozenset[int]
    """``id()`` of each node that is the name of an argument or a local variable."""

    @classmethod
    def parse(cls, text: str) -> "DriverSource":
        """Return the parsed source.  :raises SyntaxError: it is invalid."""
        module = ast.parse(text)
        functions = tuple(_functions(module))
        return cls(
            module,
            functions,
            _reached(module, functions),
            _drivers(module),
            _aliases(module),
            frozenset(_hidden(module, frozenset())),
        )

    def alive(self) -> Iterator[ast.AST]:
        """Yield the nodes of the file without functions that are not reached."""
        yield from _alive(self.module, self.reached)

    def dotted(self, node: ast.AST) -> str | None:
        """Return the full dotted name of a node, such as ``nova.exception.ReshapeNeeded``.

        ``None`` if the node is not a name that was imported.
        """
        parts = []
        while isinstance(node, ast.Attribute):
            parts.append(node.attr)
            node = node.value
        if not self.is_global(node) or node.id not in self.aliases:
            return None
        return ".".join([self.aliases[node.id], *reversed(parts)])

    def is_global(self, node: ast.AST) -> TypeGuard[ast.Name]:
        """Return whether a node is a name of the module, not hidden by a local variable."""
        return isinstance(node, ast.Name) and id(node) not in self.hidden

    def is_base(self, driver: ast.ClassDef) -> bool:
        """Return whether another driver of the file derives from this one."""
        return any(driver.name in _bases(other) for other in self.classes)

    def inherited(self, driver: ast.ClassDef) -> Iterator[ast.ClassDef]:
        """Yield the class and its base classes in this file."""
        yield driver
        named = {node.name: node for node in self.module.body if isinstance(node, ast.ClassDef)}
        for base in driver.bases:
            if isinstance(base, ast.Name) and base.id in named and named[base.id] is not driver:
                yield from self.inherited(named[base.id])


def methods(driver: ast.ClassDef) -> dict[str, Function]:
    """Return the methods of a class by name."""
    return {node.name: node for node in driver.body if isinstance(node, Function)}


def _functions(node: ast.AST) -> Iterator[Function]:
    """Return functions of the module and its classes, not nested ones."""
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
    """Return the classes that derive from ``ComputeDriver``, also through classes of the file."""
    kinds = [node for node in ast.walk(module) if isinstance(node, ast.ClassDef)]
    names: set[str] = set()
    for _ in kinds:
        names |= {
            each.name
            for each in kinds
            if any(base.endswith("ComputeDriver") or base in names for base in _bases(each))
            or "get_available_nodes" in methods(each)
        }
    return tuple(each for each in kinds if each.name in names)


def _bases(kind: ast.ClassDef) -> list[str]:
    return [ast.unparse(base) for base in kind.bases]


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
            todo += [mention for node in ast.walk(function) for mention in _mentions(node)]
    return frozenset(each for name in done for each in by_name[name])


def _hidden(node: ast.AST, local: frozenset[str]) -> Iterator[int]:
    if isinstance(node, ast.Name) and node.id in local:
        yield id(node)
    inner = local
    if isinstance(node, Function | ast.Lambda):
        for outer in (*node.args.defaults, *filter(None, node.args.kw_defaults)):
            yield from _hidden(outer, local)
        inner = local | _locals(node)
    elif isinstance(node, Comprehension):
        targets = (it for part in node.generators for it in ast.walk(part.target))
        inner = local | {it.id for it in targets if isinstance(it, ast.Name)}
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.arguments):
            yield from _hidden(child, inner)


def _locals(function: Function | ast.Lambda) -> frozenset[str]:
    """Return arguments and assigned names of a function, without ``global`` names and imports."""
    arguments = function.args
    every = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    optional = (arguments.vararg, arguments.kwarg)
    names = {argument.arg for argument in (*every, *optional) if argument is not None}
    body = function.body if isinstance(function, Function) else []
    todo: list[ast.AST] = [*body]
    shared: set[str] = set()
    while todo:
        node = todo.pop()
        if isinstance(node, ast.Global):
            shared.update(node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        if not isinstance(node, Function | ast.Lambda | ast.ClassDef | Comprehension):
            todo += ast.iter_child_nodes(node)
    return frozenset(names - shared)


def _mentions(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Attribute):
        yield node.attr
    elif isinstance(node, ast.Name):
        yield node.id


def _aliases(module: ast.Module) -> dict[str, str]:
    aliases: dict[str, str] = {}
    for node in ast.walk(module):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                aliases[alias.asname or first] = alias.name if alias.asname else first
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            for alias in node.names:
                aliases[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in module.body:  # CONF = nova.conf.CONF
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            source = ast.unparse(node.value)
            root, _, rest = source.partition(".")
            if root in aliases and source.replace(".", "").replace("_", "").isalnum():
                aliases[node.targets[0].id] = f"{aliases[root]}.{rest}" if rest else aliases[root]
    return aliases
