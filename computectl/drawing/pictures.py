"""The picture formats of ``computectl tree``; each module is imported when it is used.

A format is a function from a :class:`~computectl.drawing.picture.Picture` to a text, and a
line here; see CONTRIBUTING.rst, "Adding a picture format".
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
"""The function that writes each format, as ``module:function``."""


def draw_picture(name: str, trees: Trees, *, terse: bool = False) -> str:
    """Return the trees in the format ``name``, one of ``FORMATS``.

    :raises computectl.shared.errors.CommandError: drawing failed, such as svg without Graphviz.
    """
    snapshot, usage = trees.together()
    drawn = picture(snapshot, Surroundings(usage, trees.owner, terse=terse))
    return str(resolve_name(FORMATS[name])(drawn))
