"""Draw a picture as SVG: it is written in the DOT language, which Graphviz's program lays out."""

import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from html import escape, unescape

from computectl.drawing.picture import Box, BoxKind, Picture
from computectl.shared.errors import PROBLEMS, CommandError
from reportclient.plain_text import columns

COLOURS: Mapping[BoxKind, tuple[str, str]] = {
    BoxKind.ROOT: ("#cfe2f7", "#2b5f94"),
    BoxKind.NUMA: ("#d9eed4", "#3f7a34"),
    BoxKind.DEVICE: ("#fdeec4", "#94701a"),
    BoxKind.PLAIN: ("#eeeeee", "#777777"),
    BoxKind.SHARING: ("#e6d9f2", "#6a3d9a"),
}
"""Fill and line colour by kind; the fills differ in lightness too."""
DISABLED_COLOUR = "#c02020"
AGGREGATE_COLOUR = "#7a4fa3"
MOST_ACROSS = 5
"""Most boxes beside each other; with more, trees grow to the right."""
SECONDS = 120
"""Time limit of the layout, in seconds; thousands of boxes take minutes and are unreadable."""
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
_TEXT = re.compile(r'(<text [^>]*font-size="([\d.]+)"[^>]*)>([^<]+)</text>')


def svg_of(dot: str) -> str:
    """Return the SVG of a text in the DOT language.

    :raises CommandError: Graphviz is not installed, fails, or takes too long.
    """
    program = shutil.which("dot")
    if program is None:
        what = "-f svg needs Graphviz's program dot, which is not installed here"
        raise CommandError(what, "install the package graphviz")
    try:
        done = subprocess.run(  # noqa: S603  no shell, no arguments from outside
            [program, "-Tsvg"],
            input=dot,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        what = f"dot did not finish within {SECONDS} seconds"
        raise CommandError(what, "choose fewer trees", PROBLEMS) from None
    if done.returncode != 0:
        step = "is Graphviz installed completely? `dot -V` shows its version"
        raise CommandError(f"dot failed: {done.stderr}", step, PROBLEMS)
    return _TEXT.sub(_with_fixed_width, done.stdout)


def _with_fixed_width(text: re.Match[str]) -> str:
    """Return an SVG text with the width of the layout, whatever font the viewer has."""
    width = columns(unescape(text[3])) * BREADTH * float(text[2])
    return f'{text[1]} textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs">{text[3]}</text>'


def draw_dot(picture: Picture) -> str:
    """Return a picture as a digraph; trees grow down, or to the right if they are broad."""
    return "\n".join(_lines(picture)) + "\n"


def _lines(picture: Picture) -> Iterator[str]:
    yield "digraph providers {"
    yield f"  graph [rankdir={_direction(picture)}, ordering=out, nodesep=0.25, {_FONT}]"
    yield f'  node [shape=box, style="filled,rounded", margin="0.08,0.06", {_LETTERS}]'
    yield '  edge [color="#555555", arrowsize=0.6]'
    for box in picture.boxes:
        yield f"  p{box.number} [label=<{_label(box)}>, {_style(box)}]"
    for parent, child in picture.edges:
        yield f"  p{parent} -> p{child}"
    for number, hub in enumerate(picture.hubs):
        title = f"aggregate {hub.title}"
        label = _with_room([title], [escape(title)])
        yield (
            f'  a{number} [label=<{label}>, shape=ellipse, style="filled,dashed", '
            f'fillcolor="#ffffff", color="{AGGREGATE_COLOUR}"]'
        )
        for member in hub.boxes:
            ends = [f"a{number}", f"p{member}"]
            if picture.boxes[member].kind is BoxKind.SHARING:
                ends.reverse()  # sharing providers are above the others
            yield f'  {" -> ".join(ends)} [dir=none, style=dashed, color="{AGGREGATE_COLOUR}"]'
    yield _legend(picture)
    yield "}"


def _direction(picture: Picture) -> str:
    """Return ``LR`` if more than ``MOST_ACROSS`` boxes are at one depth, else ``TB``."""
    depth = {box.number: 0 for box in picture.boxes}
    for parent, child in picture.edges:  # parents come first
        depth[child] = depth[parent] + 1
    broadest = max(Counter(depth.values()).values(), default=0)
    return "LR" if broadest > MOST_ACROSS else "TB"


def _label(box: Box) -> str:
    rows = [f"<b>{escape(box.title)}</b>"]
    rows += [escape(amount) for amount in box.amounts]
    rows += [f'<font color="#555555"><i>{escape(trait)}</i></font>' for trait in box.traits]
    rows += [f'<font color="{AGGREGATE_COLOUR}">{escape(note)}</font>' for note in box.notes]
    if box.disabled:
        rows.insert(1, f'<font color="{DISABLED_COLOUR}"><b>disabled</b></font>')
    return _with_room((box.title, *box.amounts, *box.traits, *box.notes), rows)


def _with_room(texts: Iterable[str], rows: Iterable[str]) -> str:
    """Return a label of fixed width: Graphviz may have no font to measure the texts with.

    Each row is a cell, or the underscores of one would lie on the letters of the next.
    """
    width = round(max(map(columns, texts)) * LETTER * SIZE)
    cells = "".join(f'<tr><td width="{width}">{row}</td></tr>' for row in rows)
    return f'<table border="0" cellborder="0" cellspacing="0" cellpadding="1">{cells}</table>'


def _style(box: Box) -> str:
    fill, line = COLOURS[box.kind]
    if box.disabled:
        line = DISABLED_COLOUR
    style = "filled,rounded" + (",dashed" if box.foreign else "")
    width = 3 if box.marked else 1
    several = ", peripheries=2" if box.count > 1 else ""
    return f'fillcolor="{fill}", color="{line}", style="{style}", penwidth={width}{several}'


_SAMPLES: Mapping[str, str] = {
    **{
        kind.name.lower(): f'border="1" bgcolor="{fill}" color="{line}"'
        for kind, (fill, line) in COLOURS.items()
    },
    "overview": 'border="0"',
    "foreign": 'border="1" style="dashed" color="#555555"',
    "disabled": f'border="1" color="{DISABLED_COLOUR}"',
    "marked": 'border="3" color="#555555"',
    "aggregate": f'border="1" sides="b" style="dashed" color="{AGGREGATE_COLOUR}"',
}
_DOUBLE = (
    '<td><table border="1" color="#555555" cellborder="1" cellspacing="2" cellpadding="0">'
    '<tr><td width="10" height="6" fixedsize="true"></td></tr></table></td>'
)


def _legend(picture: Picture) -> str:
    rows = ""
    for name, text in picture.legend():
        cell = _DOUBLE if name == "several" else f'<td {_SAMPLES[name]} width="18"> </td>'
        width = round(columns(text) * LETTER * SIZE)
        rows += f'<tr>{cell}<td align="left" width="{width}">{escape(text)}</td></tr>'
    table = f'<table border="0" cellborder="0" cellspacing="4">{rows}</table>'
    return f'  legend [shape=box, style="", color="#bbbbbb", penwidth=1, label=<{table}>]'
