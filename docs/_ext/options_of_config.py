"""``.. options:: FILE`` lists the options that a configuration of oslo-config-generator names.

Their help texts are shown as they are: an asterisk in one is no markup.
"""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

from docutils import nodes
from docutils.parsers.rst import Directive

if TYPE_CHECKING:
    from sphinx.application import Sphinx

REPOSITORY = Path(__file__).resolve().parents[2]


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("options", Options)
    return {"parallel_read_safe": True}


class Options(Directive):
    """A section for each group, with its options by name."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        by_group: dict[str, dict[str, Any]] = defaultdict(dict)
        for namespace in namespaces(REPOSITORY / self.arguments[0]):
            for group, options in listed(namespace):
                by_group[group].update((option.dest, option) for option in options)
        return [_section(group, options) for group, options in sorted(by_group.items())]


def namespaces(generator: Path) -> list[str]:
    lines = (line.partition("=") for line in generator.read_text(encoding="utf-8").splitlines())
    return [value.strip() for name, _, value in lines if name.strip() == "namespace"]


def listed(namespace: str) -> Iterator[tuple[str, list[Any]]]:
    [entry_point] = metadata.entry_points(group="oslo.config.opts", name=namespace)
    for group, options in entry_point.load()():
        yield str(getattr(group, "name", group) or "DEFAULT"), list(options)


def _section(group: str, options: dict[str, Any]) -> nodes.section:
    heading = f"[{group}]"
    section = nodes.section("", nodes.title("", heading), ids=[f"group-{group}"], names=[heading])
    entries = (_entry(group, option) for _, option in sorted(options.items()))
    section += nodes.definition_list("", *entries)
    return section


def _entry(group: str, option: Any) -> nodes.definition_list_item:
    term = nodes.term("", "", nodes.literal("", option.dest), ids=[f"{group}.{option.dest}"])
    facts = ", ".join(_facts(option))
    text = textwrap.dedent(option.help or "").strip()
    body = (nodes.paragraph("", " ".join(part.split())) for part in text.split("\n\n"))
    definition = nodes.definition("", nodes.paragraph("", facts), *body)
    return nodes.definition_list_item("", term, definition)


def _as_typed(value: Any) -> str:
    """Return a value as it stands in a configuration file."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        value = [f"{key}:{each}" for key, each in value.items()]
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return text or "empty"


def _facts(option: Any) -> Iterator[str]:
    kind = option.type
    yield getattr(kind, "type_name", "value")
    default = option.sample_default if option.sample_default is not None else option.default
    yield "not set by default" if default is None else f"default: {_as_typed(default)}"
    for name, limit in (("at least", "min"), ("at most", "max")):
        if getattr(kind, limit, None) is not None:
            yield f"{name} {getattr(kind, limit)}"
    if getattr(kind, "choices", None):
        yield "one of " + ", ".join(map(str, kind.choices))
    if getattr(option, "mutable", False):
        yield "changed by a reload"
    if getattr(option, "deprecated_for_removal", False):
        yield "deprecated"
