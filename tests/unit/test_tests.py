"""What holds of the tests themselves: they use public names only, and assert no durations.

A private name may go, or mean something else, with any change; on a busy machine nothing is quick.
"""

import ast
import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

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
            case ast.Attribute(value=ast.Name("self" | "cls") | ast.Call(func=ast.Name("super"))):
                continue
            case ast.Attribute(attr=name) if is_private(name) and name not in OF_OTHERS:
                yield node.lineno, name
            case ast.ImportFrom(names=names):
                yield from ((node.lineno, one.name) for one in names if is_private(one.name))
            case ast.Call(func=ast.Attribute(attr="setattr" | "delattr"), args=args):
                texts = [arg.value for arg in args[:2] if isinstance(arg, ast.Constant)]
                parts = [part for text in texts for part in str(text).split(".")]
                yield from ((node.lineno, part) for part in parts if is_private(part))
            case _:
                pass


CLOCK = r"(?:\w+\.)*(?:monotonic|perf_counter|time)\(\) - "


def asserted_durations(text: str) -> Iterator[int]:
    """Lines of assertions that a slow machine fails: a time that passed has an upper bound."""
    named = [rf"\b{name}\b" for name in re.findall(rf"(\w+) = {CLOCK}", text)]
    duration = re.compile("|".join([CLOCK, *named]))
    asserts = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Assert)]
    parts = [part for each in asserts for part in ast.walk(each)]
    for node in (part for part in parts if isinstance(part, ast.Compare)):
        sides = pairwise([node.left, *node.comparators])
        for (left, right), op in zip(sides, node.ops, strict=True):
            bounded = {ast.Lt: left, ast.LtE: left, ast.Gt: right, ast.GtE: right}.get(type(op))
            if bounded is not None and duration.search(ast.unparse(bounded)):
                yield node.lineno


def test_structure_tests_use_public_names_and_assert_no_durations() -> None:
    found = []
    for path in sorted(TESTS.rglob("*.py")):
        tree, where = parsed(path), path.relative_to(TESTS)
        found += [f"{where}:{line}: {name}" for line, name in private_names(tree)]
        if path.name.startswith("test_"):
            found += [f"{where}:{line}: a time" for line in asserted_durations(path.read_text())]
    assert not found, "\n".join(found)


def test_such_tests_are_found() -> None:
    private = "from agent.x import _one\nhost._two\nmonkeypatch.setattr('agent.x._three', 1)\n"
    names = [name for _, name in private_names(ast.parse(private))]
    assert names == ["_one", "_two", "_three"]
    quick = "took = time.monotonic() - began\nassert took < 30\nassert 30 > took\nassert took > 2\n"
    assert list(asserted_durations(quick)) == [2, 3]
