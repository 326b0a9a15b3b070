"""``.. driver-rules::`` lists the rules for drivers, from the docstrings of DriverContract."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sphinx.application import Sphinx

CONTRACT = Path(__file__).resolve().parents[2] / "driverkit" / "contract.py"


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("driver-rules", DriverRules)
    return {"parallel_read_safe": True}


class DriverRules(Directive):
    """A section for each test: what it demands, why, and how to mend a driver."""

    def run(self) -> list[nodes.Node]:
        return [self._section(name, text) for name, text in rules()]

    def _section(self, name: str, text: str) -> nodes.section:
        section = nodes.section("", nodes.title("", name), ids=[name], names=[name])
        self.state.nested_parse(StringList(text.splitlines(), str(CONTRACT)), 0, section)
        return section


def rules() -> Iterator[tuple[str, str]]:
    """Yield name and docstring of each test of the contract; nothing is imported."""
    for node in ast.walk(ast.parse(CONTRACT.read_text())):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            yield node.name, ast.get_docstring(node) or ""
