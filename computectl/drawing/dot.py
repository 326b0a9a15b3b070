"""Write a picture in Graphviz's DOT language.  Pure."""

from collections.abc import Iterable, Iterator, Mapping
from html import escape

from computectl.drawing.picture import Box, BoxKind, Picture
from computectl.drawing.style import (
    COLOURS,
    DISABLED_COLOUR,
    MOST_ACROSS,
    legend,
)
from reportclient.plain_text import columns

_FONT = 'fontname="Courier New,Liberation Mono,DejaVu Sans Mono,monospace"'
"""Monospaced fonts, all of nearly the same width: the viewer may have another font than the host
that laid out the picture."""
SIZE = 10
"""Font size in points."""
_LETTERS = f"fontsize={SIZE}, {_FONT}"
BREADTH = 0.6
"""Width of a letter, as a fraction of the font size."""
LETTER = 0.61
"""Width reserved for a letter, as a fraction of the font size: some fonts are wider."""


def draw_dot(picture: Picture) -> str:
    """Return a picture as a digraph; trees grow down, or to the right if they are broad."""
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    yield "digraph providers {"
    yield f"  graph [rankdir={_direction(picture)}, ordering=out, nodesep=0.25, {_FONT}]"
    yield f'  node [shape=box, style="filled,rounded", margin="0.08,0.06", {_LETTERS}]'
    yield '  edge [color="#555555", arrowsize=0.6]'
    for box in picture.boxes:
        yield f"  {_name(box)} [label=<{_label(box)}>, {_style(box)}]"
    for parent, child in picture.edges:
        yield f"  p{parent} -> p{child}"
    for number, hub in enumerate(picture.hubs):
        title = f"aggregate {hub.title}"
        label = _with_room([title], escape(title))
        yield (
            f'  a{number} [label=<{label}>, shape=ellipse, style="filled,dashed", '
            'fillcolor="#ffffff", color="#7a4fa3"]'
        )
        for member in hub.boxes:
            first, second = _ends(picture.boxes[member], number)
            yield f'  {first} -> {second} [dir=none, style=dashed, color="#7a4fa3"]'
    yield from _legend(picture)
    yield "}"


def _direction(picture: Picture) -> str:
    """Return ``LR`` if more than ``MOST_ACROSS`` boxes are at one depth, else ``TB``."""
    across: dict[int | None, int] = {}
    parents = {child: parent for parent, child in picture.edges}
    depth: dict[int, int] = {}
    for box in picture.boxes:
        parent = parents.get(box.number)
        depth[box.number] = depth[parent] + 1 if parent is not None else 0
        across[depth[box.number]] = across.get(depth[box.number], 0) + 1
    return "LR" if max(across.values(), default=0) > MOST_ACROSS else "TB"


def _ends(box: Box, hub: int) -> tuple[str, str]:
    """Return the ends of an aggregate's edge: a sharing provider first, any other one last."""
    ends = f"a{hub}", _name(box)
    return (ends[1], ends[0]) if box.kind is BoxKind.SHARING else ends


def _name(box: Box) -> str:
    return f"p{box.number}"


def _label(box: Box) -> str:
    rows = [f"<b>{escape(box.title)}</b>"]
    rows += [escape(amount) for amount in box.amounts]
    rows += [f'<font color="#555555"><i>{escape(trait)}</i></font>' for trait in box.traits]
    rows += [f'<font color="#7a4fa3">{escape(note)}</font>' for note in box.notes]
    if box.disabled:
        rows.insert(1, f'<font color="{DISABLED_COLOUR}"><b>disabled</b></font>')
    texts = (box.title, *box.amounts, *box.traits, *box.notes)
    return _with_room(texts, "<br/>".join(rows))


def _with_room(texts: Iterable[str], label: str) -> str:
    """Return a label of fixed width: Graphviz may have no font to measure the text with."""
    width = round(max(map(columns, texts)) * LETTER * SIZE)
    return (
        '<table border="0" cellborder="0" cellspacing="0" cellpadding="0">'
        f'<tr><td width="{width}">{label}</td></tr></table>'
    )


def _style(box: Box) -> str:
    fill, line = COLOURS[box.kind]
    if box.disabled:
        line = DISABLED_COLOUR
    style = "filled,rounded" + (",dashed" if box.foreign else "")
    width = 3 if box.marked else 1
    several = ", peripheries=2" if box.count > 1 else ""
    return f'fillcolor="{fill}", color="{line}", style="{style}", penwidth={width}{several}'


def _legend(picture: Picture) -> Iterator[str]:
    rows = "".join(_row(name, text) for name, text in legend(picture))
    table = f'<table border="0" cellborder="0" cellspacing="4">{rows}</table>'
    yield f'  legend [shape=box, style="", color="#bbbbbb", penwidth=1, label=<{table}>]'


_SAMPLES: Mapping[str, str] = {
    **{
        kind.name.lower(): f'border="1" bgcolor="{fill}" color="{line}"'
        for kind, (fill, line) in COLOURS.items()
    },
    "overview": 'border="0"',
    "foreign": 'border="1" style="dashed" color="#555555"',
    "disabled": f'border="1" color="{DISABLED_COLOUR}"',
    "marked": 'border="3" color="#555555"',
    "aggregate": 'border="1" sides="b" style="dashed" color="#7a4fa3"',
}
_DOUBLE = (
    '<td><table border="1" color="#555555" cellborder="1" cellspacing="2" cellpadding="0">'
    '<tr><td width="10" height="6" fixedsize="true"></td></tr></table></td>'
)


def _row(name: str, text: str) -> str:
    cell = _DOUBLE if name == "several" else f'<td {_SAMPLES[name]} width="18"> </td>'
    width = round(columns(text) * LETTER * SIZE)
    return f'<tr>{cell}<td align="left" width="{width}">{escape(text)}</td></tr>'
