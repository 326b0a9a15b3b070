"""Colours and legend of all picture formats."""

from collections.abc import Iterator, Mapping

from computectl.drawing.picture import BoxKind, Picture

COLOURS: Mapping[BoxKind, tuple[str, str]] = {
    BoxKind.ROOT: ("#cfe2f7", "#2b5f94"),
    BoxKind.NUMA: ("#d9eed4", "#3f7a34"),
    BoxKind.DEVICE: ("#fdeec4", "#94701a"),
    BoxKind.PLAIN: ("#eeeeee", "#777777"),
    BoxKind.SHARING: ("#e6d9f2", "#6a3d9a"),
}
"""Fill and line colour by kind; the fills differ in lightness too."""
DISABLED_COLOUR = "#c02020"

MARKS: Mapping[str, str] = {
    "foreign": "dashed border: foreign, not written by this agent",
    "disabled": "red border: disabled, takes no new guests",
    "marked": "thick border: the provider asked for",
}
MOST_ACROSS = 5
"""Most boxes beside each other; with more, trees grow to the right."""


def legend(picture: Picture) -> Iterator[tuple[str, str]]:
    """Yield the legend of a picture: names of styles, with their texts."""
    yield from ((kind.name.lower(), kind.value) for kind in picture.kinds())
    if any(box.count > 1 for box in picture.boxes):
        yield "several", "double border: several of the same shape"
    if picture.overview:
        yield "overview", "overview: those of a box differ; ask for one by its name to see it"
    yield from ((mark, text) for mark, text in MARKS.items() if picture.has(mark))
    if picture.hubs:
        yield "aggregate", "dashed line: member of an aggregate"
