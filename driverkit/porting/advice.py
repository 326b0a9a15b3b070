"""Advice on the source of a Nova driver, line by line.  Pure."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from driverkit.porting.driver_source import DriverSource, Function, methods
from driverkit.porting.nova_api import (
    CALLED,
    CLASS_ATTRIBUTES,
    DROP,
    HELPERS,
    LIVE_NAMES,
    LOOK,
    MUST,
    NEWEST,
    OLDER_METHODS,
    TREE_LOOKS,
    TREE_METHODS,
    instead_of,
)
from drivers import abilities
from drivers.abilities import ABILITY_OF, OPTIONAL

TREE = "provider_tree"


@dataclass(frozen=True, slots=True, order=True)
class Diagnostic:
    """Advice on a line; ``verdict`` is ``must``, ``look``, ``drop`` or ``fine``."""

    line: int
    verdict: str
    what: str
    advice: str


def diagnostics(source: DriverSource) -> list[Diagnostic]:
    """Return the advice on a source, sorted by line, without duplicates."""
    return sorted(
        {
            *_imports(source),
            *_uses(source),
            *_classes(source),
            *_missing(source),
            *_functions(source),
            *_trees(source),
        }
    )


def _imports(source: DriverSource) -> Iterator[Diagnostic]:
    used = {node.id for node in source.alive() if source.is_global(node)}
    for node in source.alive():
        if isinstance(node, ast.Import):
            names = [(alias.asname or alias.name.partition(".")[0], alias) for alias in node.names]
            yield from _imported(node.lineno, "", names, used)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            named = [(alias.asname or alias.name, alias) for alias in node.names]
            yield from _imported(node.lineno, f"{node.module}.", named, used)
        elif isinstance(node, ast.ImportFrom):
            what = f"from {'.' * node.level}{node.module or ''} import …"
            yield Diagnostic(node.lineno, LOOK, what, "check that file, too")


def _imported(
    line: int, module: str, names: list[tuple[str, ast.alias]], used: set[str]
) -> Iterator[Diagnostic]:
    for name, alias in names:
        dotted = module + alias.name
        advice = instead_of(dotted)
        if advice is None and not module and dotted.partition(".")[0] in used:
            continue
        if name not in used and name != "*":
            if advice is not None or module.startswith("nova"):
                yield Diagnostic(
                    line, DROP, f"import of {dotted}", "not used by code that runs here"
                )
        elif advice is not None:
            yield Diagnostic(line, MUST, f"import of {dotted}", advice)


def _uses(source: DriverSource) -> Iterator[Diagnostic]:
    inner = {
        id(node.value) for node in source.alive() if isinstance(node, ast.Attribute)
    }  # of a.b.c only the whole counts
    stored = {id(name) for node in source.alive() for name in _kept(node)}
    for node in source.alive():
        if not isinstance(node, ast.Attribute | ast.Name) or id(node) in inner:
            continue
        if not isinstance(node.ctx, ast.Load):
            continue
        dotted = source.dotted(node)
        advice = instead_of(dotted) if dotted is not None else None
        if advice is not None:
            yield Diagnostic(node.lineno, MUST, ast.unparse(node), advice)
        elif _is_virtapi(node) and id(node) not in stored:
            yield Diagnostic(node.lineno, MUST, ast.unparse(node), "there is no virtapi")


def _is_virtapi(node: ast.expr) -> bool:
    if isinstance(node, ast.Attribute):
        return node.attr.strip("_") == "virtapi" or _is_virtapi(node.value)
    return isinstance(node, ast.Name) and node.id.strip("_") == "virtapi"


def _kept(node: ast.AST) -> Iterator[ast.expr]:
    """Yield what is only stored, or passed to the base class: our context may be called virtapi."""
    if isinstance(node, ast.Assign):
        yield node.value
    elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(".__init__"):
        yield from (*node.args, *(keyword.value for keyword in node.keywords))


def _classes(source: DriverSource) -> Iterator[Diagnostic]:
    for driver in source.classes:
        own = _methods(source, driver)
        yield from _constructor(own.get("__init__"))
        yield from _attributes(driver)
        if source.is_base(driver):
            continue
        if "get_available_nodes" not in own:
            text = "add it: it returns the nodes of this driver, such as [self.context.host]"
            yield Diagnostic(driver.lineno, MUST, f"{driver.name}: no get_available_nodes", text)
        if not {NEWEST, *OLDER_METHODS} & own.keys():
            text = "add it: it reports the resources of a node"
            yield Diagnostic(driver.lineno, MUST, f"{driver.name}: no {NEWEST}", text)
        for ability in OPTIONAL:
            names = abilities.methods(ability)
            present = [name for name in names if name in own]
            for name in [name for name in names if name not in own] if present else ():
                text = f"a driver with {present[0]} needs it; it may be empty"
                yield Diagnostic(own[present[0]].lineno, MUST, f"{driver.name}: no {name}", text)


def _methods(source: DriverSource, driver: ast.ClassDef) -> dict[str, Function]:
    """Return the methods of a class, with those of its base classes in this file."""
    return {
        name: node
        for kind in reversed([*source.inherited(driver)])
        for name, node in methods(kind).items()
    }


def _missing(source: DriverSource) -> Iterator[Diagnostic]:
    """Yield advice on ``self.x()`` where neither the class nor our base class has ``x``."""
    set_anywhere = {
        node.attr
        for node in ast.walk(source.module)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
    }
    for driver in source.classes:
        kinds = [*source.inherited(driver)]
        here = set_anywhere | CALLED.keys() | HELPERS
        for kind in kinds:
            here |= {name for node in kind.body for name in _defined(node)}
        for function in _methods(source, driver).values():
            if function in source.reached:
                yield from _calls_on_self(function, here)


def _defined(node: ast.stmt) -> Iterator[str]:
    if isinstance(node, Function | ast.ClassDef):
        yield node.name
    for name in ast.walk(node) if isinstance(node, ast.Assign | ast.AnnAssign) else ():
        if isinstance(name, ast.Name) and isinstance(name.ctx, ast.Store):
            yield name.id


def _calls_on_self(function: Function, here: set[str]) -> Iterator[Diagnostic]:
    for node in ast.walk(function):
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            continue
        called = node.func
        if _is_name(called.value, "self") and called.attr not in here:
            text = "not defined here: copy it from Nova's base class or the other file"
            yield Diagnostic(node.lineno, MUST, f"self.{called.attr}()", text)


def _constructor(init: Function | None) -> Iterator[Diagnostic]:
    if init is None:
        return
    arguments = [each.arg for each in init.args.args[1:]]
    required = arguments[: len(arguments) - len(init.args.defaults)]
    if arguments[:1] != ["context"] or len(required) > 1:
        fits = bool(arguments) and len(required) <= 1
        text = "it gets one argument, a drivers.api.DriverContext"
        verdict = LOOK if fits else MUST
        yield Diagnostic(init.lineno, verdict, f"__init__(self, {', '.join(arguments)})", text)


def _attributes(driver: ast.ClassDef) -> Iterator[Diagnostic]:
    for node in driver.body:
        if not isinstance(node, ast.Assign | ast.AnnAssign):
            continue
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        for target in targets:
            if isinstance(target, ast.Name) and target.id in CLASS_ATTRIBUTES:
                verdict, advice = CLASS_ATTRIBUTES[target.id]
                yield Diagnostic(node.lineno, verdict, target.id, advice)


def _functions(source: DriverSource) -> Iterator[Diagnostic]:
    own = {
        name: node for driver in source.classes for name, node in _methods(source, driver).items()
    }
    for function in source.functions:
        name = function.name
        if function not in source.reached:
            superseded = name in OLDER_METHODS and NEWEST in own
            advice = f"not called, since {NEWEST} is defined" if superseded else "not called here"
            yield Diagnostic(function.lineno, DROP, f"{name}()", advice)
        elif function is own.get(name) and name in CALLED and name != "__init__":
            yield _called(function)


def _called(function: Function) -> Diagnostic:
    name = function.name
    verdict, advice = CALLED[name]
    if name == NEWEST and len(function.args.args) < 4 and function.args.vararg is None:
        verdict, advice = MUST, "allocations=None has to be its last argument"
    if not isinstance(function, ast.FunctionDef):
        verdict, advice = MUST, "it can't be async"
    elif name in ABILITY_OF and name not in OLDER_METHODS and _only_raises(function):
        verdict, advice = MUST, "it only raises: remove it, or it is called"
    return Diagnostic(function.lineno, verdict, f"{name}()", advice)


def _only_raises(function: Function) -> bool:
    body = [node for node in function.body if not isinstance(node, ast.Expr)]
    return len(body) == 1 and isinstance(body[0], ast.Raise)


def _trees(source: DriverSource) -> Iterator[Diagnostic]:
    """Yield advice on uses of the provider tree in functions that get it as an argument."""
    for function in source.reached:
        arguments = [each.arg for each in function.args.args]
        if function.name == NEWEST and len(arguments) > 1:
            name = arguments[1]
        elif TREE in arguments:
            name = TREE
        else:
            continue
        live = _live_names(function, name)
        for node in ast.walk(function):
            yield from _on_tree(node, name)
            yield from _on_live(node, live)


def _on_tree(node: ast.AST, tree: str) -> Iterator[Diagnostic]:
    if isinstance(node, ast.Attribute) and _is_name(node.value, tree):
        if node.attr not in TREE_METHODS:
            text = "the tree has no such method here; docs/driver-api.rst lists its methods"
            yield Diagnostic(node.lineno, MUST, f"{tree}.{node.attr}", text)
        elif node.attr in TREE_LOOKS:
            yield Diagnostic(node.lineno, LOOK, f"{tree}.{node.attr}", TREE_LOOKS[node.attr])
    elif (
        isinstance(node, ast.Assign)
        and _is_name(node.value, tree)
        and any(isinstance(target, ast.Attribute) for target in node.targets)
    ):
        text = "the tree is valid until the method returns: do not store it"
        yield Diagnostic(node.lineno, MUST, ast.unparse(node), text)


def _live_names(function: Function, tree: str) -> set[str]:
    """Return the variables that loops over ``roots`` or ``children`` set."""
    loops = [node for node in ast.walk(function) if isinstance(node, ast.For | ast.comprehension)]
    live: set[str] = set()
    for _ in loops:  # until children of children are known
        for loop in loops:
            over = {ast.unparse(node) for node in ast.walk(loop.iter)}
            wanted = {
                f"{tree}.roots",
                f"{tree}.roots_by_uuid.values",
                f"{tree}.roots_by_name.values",
            }
            wanted |= {f"{name}.children.values" for name in live}
            if over & wanted and isinstance(loop.target, ast.Name):
                live.add(loop.target.id)
    return live


def _on_live(node: ast.AST, live: set[str]) -> Iterator[Diagnostic]:
    if not isinstance(node, ast.Attribute) or getattr(node.value, "id", None) not in live:
        return
    what = ast.unparse(node)
    if node.attr not in LIVE_NAMES:
        text = "a provider of the tree has no such method here; docs/driver-api.rst lists them"
        yield Diagnostic(node.lineno, MUST, what, text)
    elif not isinstance(node.ctx, ast.Load):
        yield Diagnostic(node.lineno, MUST, what, "read-only here: change the tree by its methods")


def _is_name(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name
