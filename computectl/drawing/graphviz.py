"""Draw a picture as SVG with Graphviz's program ``dot``."""

import re
import shutil
import subprocess
from html import unescape

from computectl.drawing.dot import BREADTH, draw_dot
from computectl.drawing.picture import Picture
from computectl.shared.errors import PROBLEMS, CommandError
from reportclient.plain_text import columns

_TEXT = re.compile(r'(<text [^>]*font-size="([\d.]+)"[^>]*)>([^<]+)</text>')
SECONDS = 120
"""Time limit of the layout, in seconds; thousands of boxes take minutes and are unreadable."""


def draw_svg(picture: Picture) -> str:
    """Return a picture as SVG.  :raises CommandError: as :func:`svg_of`."""
    return svg_of(draw_dot(picture))


def svg_of(dot: str, within: int = SECONDS) -> str:
    """Return the SVG of a text in the DOT language; ``within``: time limit in seconds.

    :raises CommandError: Graphviz is not installed, fails, or takes too long.
    """
    program = shutil.which("dot")
    if program is None:
        raise CommandError(
            "-f svg needs Graphviz's program dot, which is not installed here",
            "install the package graphviz, or use -f mermaid or -f dot",
        )
    try:
        done = subprocess.run(  # noqa: S603  no shell, no arguments from outside
            [program, "-Tsvg"],
            input=dot,
            capture_output=True,
            text=True,
            encoding="utf-8",
            timeout=within,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise CommandError(
            f"dot did not finish within {within} seconds", "choose fewer trees", PROBLEMS
        ) from None
    if done.returncode != 0:
        raise CommandError(f"dot failed: {done.stderr}", "-f dot shows its input", PROBLEMS)
    return _TEXT.sub(_held, done.stdout)


def _held(text: re.Match[str]) -> str:
    """Return an SVG text with the width of the layout, whatever font the viewer has."""
    width = columns(unescape(text[3])) * BREADTH * float(text[2])
    return f'{text[1]} textLength="{width:.1f}" lengthAdjust="spacingAndGlyphs">{text[3]}</text>'
