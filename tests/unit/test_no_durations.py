"""No test asserts that something was quick: on a busy machine nothing is."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]
CLOCKS = {"monotonic", "perf_counter", "time"}
SAFE = """
began = time.monotonic()
assert time.monotonic() < give_up
took = time.monotonic() - began
assert calls <= took / 3 + 1
assert took >= 2
"""
UNSAFE = """
took = time.monotonic() - began
assert time.monotonic() - began < 30
assert took < 30 and well
assert 30 > took
assert 0 <= took < 60
"""


def asserted_durations(source: str) -> Iterator[int]:
    """Lines of assertions that a slow machine fails: a time that passed has an upper bound."""
    tree = ast.parse(source)
    named = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and _is_duration(node.value)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Assert):
            compared = (one for one in ast.walk(node.test) if isinstance(one, ast.Compare))
            if any(_bounds(one, named) for one in compared):
                yield node.lineno


def _bounds(compare: ast.Compare, named: set[str]) -> bool:
    terms = [compare.left, *compare.comparators]
    for left, how, right in zip(terms, compare.ops, terms[1:], strict=False):
        bounded = {ast.Lt: left, ast.LtE: left, ast.Gt: right, ast.GtE: right}.get(type(how))
        if bounded is not None and any(_is_timed(part, named) for part in ast.walk(bounded)):
            return True
    return False


def _is_timed(part: ast.AST, named: set[str]) -> bool:
    return _is_duration(part) or (isinstance(part, ast.Name) and part.id in named)


def _is_duration(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Sub)
        and isinstance(node.left, ast.Call)
        and isinstance(node.left.func, ast.Attribute)
        and node.left.func.attr in CLOCKS
    )


@pytest.mark.parametrize("path", sorted(TESTS.rglob("test_*.py")), ids=lambda path: path.stem)
def test_structure_no_duration_has_an_upper_bound(path: Path) -> None:
    assert not list(asserted_durations(path.read_text()))


def test_such_assertions_are_found() -> None:
    assert not list(asserted_durations(SAFE))
    assert list(asserted_durations(UNSAFE)) == [3, 4, 5, 6]
