"""What holds of the tests themselves: public names only, and one builder of each thing.

A private name may go, or mean something else, with any change.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.imports import parsed

TESTS = Path(__file__).resolve().parents[1]
OF_OTHERS = {
    *("_asdict", "_fields", "_make", "_replace", "_exit"),  # Python
    "_option_string_actions",  # argparse's parsers have no other listing
    "_content",  # of a requests.Response that a test makes
    # Nova's, which drivers and tests beside Nova call by these names
    *("_get_allocation_ratios", "_get_reserved_host_disk_gb_from_config", "_update_to_placement"),
}
"""Names of other projects that have no public one."""


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__") and name not in {"_"}


def private_names(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines and names: ``x._name`` of another object, imports of ``_name``, patches of one."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name("self" | "cls")):
                continue
            case ast.Attribute(value=ast.Call(func=ast.Name("super"))):
                continue
            case ast.Attribute(attr=name) if is_private(name) and name not in OF_OTHERS:
                yield node.lineno, name
            case ast.ImportFrom(names=names):
                yield from ((node.lineno, one.name) for one in names if is_private(one.name))
            case ast.Call(
                func=ast.Attribute(attr="setattr" | "delattr"),
                args=[_, ast.Constant(str(name)), *_],
            ):
                if is_private(name):
                    yield node.lineno, name
            case ast.Call(
                func=ast.Attribute(attr="setattr" | "delattr"), args=[ast.Constant(str(path)), *_]
            ):
                if any(is_private(part) for part in path.split(".")):
                    yield node.lineno, path
            case _:
                pass


@pytest.fixture(scope="module")
def ours() -> dict[Path, ast.Module]:
    return {path: parsed(path) for path in sorted(TESTS.rglob("*.py"))}


def test_structure_no_test_names_a_private_member(ours: dict[Path, ast.Module]) -> None:
    found = [
        f"{path.relative_to(TESTS)}:{line}: {name}"
        for path, tree in ours.items()
        for line, name in private_names(tree)
    ]
    assert not found, "\n".join(found)


BUILDERS = {
    "Nodes": "agents.py",
    "Tracker": "agents.py",
    "SqlRegistry": "registries.py",
    "HostRecord": "registries.py",
}
"""Classes, and the only file of the tests that makes them."""


def test_structure_an_agent_and_a_registry_are_put_together_in_one_place(
    ours: dict[Path, ast.Module],
) -> None:
    found = [
        f"{path.relative_to(TESTS)}:{node.lineno}: {node.func.id}, see tests/{BUILDERS[node.func.id]}"
        for path, tree in ours.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
        if BUILDERS.get(node.func.id, path.name) != path.name
    ]
    assert not found, "\n".join(found)


def test_private_members_are_found_in_each_form() -> None:
    source = (
        "from agent.x import _one\n"
        "host._two\n"
        "monkeypatch.setattr(Host, '_three', 1)\n"
        "monkeypatch.setattr('agent.x._four', 1)\n"
        "self._own; super()._own; row._replace(x=1); x.__class__\n"
    )
    assert sorted(private_names(ast.parse(source))) == [
        (1, "_one"),
        (2, "_two"),
        (3, "_three"),
        (4, "agent.x._four"),
    ]
