"""What pictures look like in whatever language they are written."""

from collections.abc import Mapping

from agent.cli.drawing.picture import BoxKind

COLOURS: Mapping[BoxKind, tuple[str, str]] = {
    BoxKind.ROOT: ("#cfe2f7", "#2b5f94"),
    BoxKind.NUMA: ("#d9eed4", "#3f7a34"),
    BoxKind.DEVICE: ("#fdeec4", "#94701a"),
    BoxKind.PLAIN: ("#eeeeee", "#777777"),
    BoxKind.SHARING: ("#e6d9f2", "#6a3d9a"),
}
"""Fill and line of each kind; the fills differ in lightness too."""
DISABLED_COLOUR = "#c02020"

MARKS: Mapping[str, str] = {
    "foreign": "dashed border: foreign, not written by this agent",
    "disabled": "red border: disabled, takes no new guests",
    "marked": "thick border: the provider asked for",
}
OVERVIEW = "overview: those of a box differ; ask for one by its name to see it"
MOST_ACROSS = 5
"""Boxes beside each other; where there are more, trees grow to the right."""
