"""Write a picture in Mermaid's language, which code forges render.  Pure."""

from collections.abc import Iterator

from computectl.drawing.picture import Box, BoxKind, Picture
from computectl.drawing.style import COLOURS, DISABLED_COLOUR, MARKS, legend

_ESCAPES = {"&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "#": "#35;"}
"""Escapes of Mermaid, whose entities start with ``#``."""
_SHAPES = {"several": ("[[", "]]"), "aggregate": ("([", "])")}


def draw_mermaid(picture: Picture) -> str:
    """Return a picture as a flowchart from left to right."""
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    yield "flowchart LR"
    for box in picture.boxes:
        yield f"  {_shape(box)}:::{box.kind.name.lower()}"
    for parent, child in picture.edges:
        yield f"  p{parent} --> p{child}"
    for number, hub in enumerate(picture.hubs):
        yield f'  a{number}(["{_text(f"aggregate {hub.title}")}"]):::aggregate'
        for member in hub.boxes:
            shares = picture.boxes[member].kind is BoxKind.SHARING
            yield f"  p{member} -.- a{number}" if shares else f"  a{number} -.- p{member}"
    yield from _legend(picture)
    yield from _classes(picture)


def _shape(box: Box) -> str:
    start, end = ("[[", "]]") if box.count > 1 else ("[", "]")
    return f'p{box.number}{start}"{_label(box)}"{end}'


def _label(box: Box) -> str:
    rows = [f"<b>{_text(box.title)}</b>"]
    rows += ["<b>disabled</b>"] if box.disabled else []
    rows += [_text(amount) for amount in box.amounts]
    rows += [f"<i>{_text(trait)}</i>" for trait in box.traits]
    rows += [_text(note) for note in box.notes]
    return "<br/>".join(rows)


def _text(text: str) -> str:
    return "".join(_ESCAPES.get(character, character) for character in text)


def _legend(picture: Picture) -> Iterator[str]:
    yield '  subgraph legend["legend"]'
    styled = {kind.name.lower() for kind in BoxKind} | {"aggregate"}
    for name, text in legend(picture):
        start, end = _SHAPES.get(name, ("[", "]"))
        style = f":::{name}" if name in styled else ""
        yield f'    k_{name}{start}"{_text(text)}"{end}{style}'
        if name in MARKS:
            yield f"    class k_{name} {name}"
    yield "  end"


def _classes(picture: Picture) -> Iterator[str]:
    for kind in picture.kinds():
        fill, line = COLOURS[kind]
        yield f"  classDef {kind.name.lower()} fill:{fill},stroke:{line},color:#000000"
    if picture.hubs:
        yield "  classDef aggregate fill:#ffffff,stroke:#7a4fa3,color:#000000"
    styles = {
        "foreign": "stroke-dasharray:5 4",
        "disabled": f"stroke:{DISABLED_COLOUR}",
        "marked": "stroke-width:4px",
    }
    for mark, style in styles.items():
        if picture.has(mark):
            yield f"  classDef {mark} {style}"
            names = [f"p{box.number}" for box in picture.boxes if getattr(box, mark)]
            yield f"  class {','.join(names)} {mark}"
