"""A picture in Graphviz's language.  Pure."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape

from agent.cli.drawing.picture import Box, Kind, Picture
from agent.cli.drawing.style import COLOURS, DISABLED_COLOUR, MARKS, MOST_ACROSS

_FONT = 'fontname="Helvetica,Arial,sans-serif"'


def draw_dot(picture: Picture) -> str:
    """A digraph; trees grow down, or to the right where they are broad."""
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    yield "digraph providers {"
    yield f"  graph [rankdir={_direction(picture)}, ordering=out, nodesep=0.25, {_FONT}]"
    yield f'  node [shape=box, style="filled,rounded", fontsize=10, margin="0.12,0.06", {_FONT}]'
    yield f'  edge [color="#555555", arrowsize=0.6, {_FONT}]'
    for box in picture.boxes:
        yield f"  {_name(box)} [label=<{_label(box)}>, {_style(box)}]"
    for parent, child in picture.edges:
        yield f"  p{parent} -> p{child}"
    for number, hub in enumerate(picture.hubs):
        title = escape(f"aggregate {hub.title}")
        yield (
            f'  a{number} [label="{title}", shape=ellipse, style="filled,dashed", '
            'fillcolor="#ffffff", color="#7a4fa3"]'
        )
        for member in hub.boxes:
            first, second = _ends(picture.boxes[member], number)
            yield f'  {first} -> {second} [dir=none, style=dashed, color="#7a4fa3"]'
    yield from _legend(picture)
    yield "}"


def _direction(picture: Picture) -> str:
    """Broad trees in lines below each other, as text is."""
    across: dict[int | None, int] = {}
    parents = {child: parent for parent, child in picture.edges}
    depth: dict[int, int] = {}
    for box in picture.boxes:
        parent = parents.get(box.number)
        depth[box.number] = depth[parent] + 1 if parent is not None else 0
        across[depth[box.number]] = across.get(depth[box.number], 0) + 1
    return "LR" if max(across.values(), default=0) > MOST_ACROSS else "TB"


def _ends(box: Box, hub: int) -> tuple[str, str]:
    """What shares stands above or before the aggregate, the others after it."""
    ends = f"a{hub}", _name(box)
    return (ends[1], ends[0]) if box.kind is Kind.SHARING else ends


def _name(box: Box) -> str:
    return f"p{box.number}"


def _label(box: Box) -> str:
    rows = [f"<b>{escape(box.title)}</b>"]
    rows += [escape(amount) for amount in box.amounts]
    rows += [f'<font color="#555555"><i>{escape(trait)}</i></font>' for trait in box.traits]
    rows += [f'<font color="#7a4fa3">{escape(note)}</font>' for note in box.notes]
    if box.disabled:
        rows.insert(1, f'<font color="{DISABLED_COLOUR}"><b>disabled</b></font>')
    return "<br/>".join(rows)


def _style(box: Box) -> str:
    fill, line = COLOURS[box.kind]
    if box.disabled:
        line = DISABLED_COLOUR
    style = "filled,rounded" + (",dashed" if box.foreign else "")
    width = 3 if box.marked else 1
    several = ", peripheries=2" if box.count > 1 else ""
    return f'fillcolor="{fill}", color="{line}", style="{style}", penwidth={width}{several}'


def _legend(picture: Picture) -> Iterator[str]:
    rows = [_key(COLOURS[kind][0], kind.value) for kind in picture.kinds()]
    if any(box.count > 1 for box in picture.boxes):
        rows.append(_key("#ffffff", "double border: several of the same shape"))
    rows += [_key("#ffffff", words) for mark, words in MARKS.items() if picture.has(mark)]
    if picture.hubs:
        rows.append(_key("#ffffff", "dashed line: member of an aggregate"))
    table = f'<table border="0" cellborder="0" cellspacing="2">{"".join(rows)}</table>'
    yield f'  legend [shape=box, style="", color="#bbbbbb", penwidth=1, label=<{table}>]'


def _key(colour: str, words: str) -> str:
    swatch = f'<td border="1" bgcolor="{colour}" width="18"> </td>'
    return f'<tr>{swatch}<td align="left">{escape(words)}</td></tr>'
