"""The formats of ``computectl tree`` that are pictures; each is loaded when it is asked for.

A new one is a function from a :class:`~computectl.drawing.picture.Picture` to a text, and a
line here; what else it takes stands in CONTRIBUTING.rst, "Adding a picture format".
"""

from collections.abc import Mapping
from pkgutil import resolve_name

from computectl.drawing.picture import Surroundings, picture
from computectl.reading.trees import Trees

FORMATS: Mapping[str, str] = {
    "dot": "computectl.drawing.dot:draw_dot",
    "mermaid": "computectl.drawing.mermaid:draw_mermaid",
    "svg": "computectl.drawing.graphviz:draw_svg",
}
"""Where the writer of each is: ``module:function``."""


def draw_picture(name: str, trees: Trees, *, terse: bool = False) -> str:
    """``name`` is one of ``FORMATS``.

    :raises computectl.shared.errors.CommandError: it can't be drawn, as svg without Graphviz.
    """
    snapshot, usage = trees.together()
    drawn = picture(snapshot, Surroundings(usage, trees.owner, terse=terse))
    return str(resolve_name(FORMATS[name])(drawn))
