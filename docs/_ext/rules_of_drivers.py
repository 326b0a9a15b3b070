"""``.. driver-rules::`` lists the rules that the kit holds drivers to, from driverkit.rulebook."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.parsers.rst import Directive

from driverkit.rulebook import RULES, Rule

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("driver-rules", DriverRules)
    return {"parallel_read_safe": True}


class DriverRules(Directive):
    """A section for each rule: what it says, why, and how to repair a driver that breaks it."""

    def run(self) -> list[nodes.Node]:
        return [_section(rule) for rule in RULES.values()]


def _section(rule: Rule) -> nodes.section:
    section = nodes.section("", nodes.title("", rule.name), ids=[rule.name], names=[rule.name])
    section += nodes.paragraph("", rule.says)
    for heading, text in (("Why: ", rule.why), ("To fix it: ", rule.mend)):
        section += nodes.paragraph("", "", nodes.emphasis("", heading), nodes.Text(text))
    return section
