"""From the trees of a command to the text of a picture, by the name of its format."""

from __future__ import annotations

from agent.cli.drawing.dot import draw_dot
from agent.cli.drawing.graphviz import svg_of
from agent.cli.drawing.mermaid import draw_mermaid
from agent.cli.drawing.picture import Known, picture
from agent.cli.reading.trees import Trees

PICTURES = ("dot", "mermaid", "svg")


def drawn_as(kind: str, trees: Trees, *, terse: bool = False) -> str:
    """``kind`` is one of ``PICTURES``.

    :raises agent.cli.shared.errors.Trouble: it is svg, and Graphviz can't draw it.
    """
    snapshot, beside = trees.together()
    drawn = picture(snapshot, Known(beside, trees.owner, terse=terse))
    if kind == "mermaid":
        return draw_mermaid(drawn)
    dot = draw_dot(drawn)
    return svg_of(dot) if kind == "svg" else dot
