"""A host's provider tree, as the picture and the text of ``computectl tree``."""

import threading
from dataclasses import dataclass, field

from computectl.drawing.graphviz import svg_of
from computectl.drawing.pictures import draw_picture
from computectl.drawing.text_tree import draw_tree
from computectl.reading.trees import ObservedTree, Trees, read_tree
from computectl.shared.errors import CommandError
from computectl.shared.screen import Screen
from reportclient.errors import PlacementError
from reportclient.http import API

AT_ONCE = 4
"""Trees that are read and drawn at the same time: the other threads answer the REST interface."""
WAIT = 10.0
"""Seconds for one's turn."""
DRAWN_WITHIN = 10
"""Seconds for a picture; the text is there all the same."""
SCREEN = Screen(width=100)


class NoTree(Exception):
    """The text says why."""


@dataclass(frozen=True, slots=True)
class Drawn:
    """``svg`` is ``None`` where it can't be drawn, and ``why_not`` says why."""

    text: str
    svg: str | None
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class TreesOfHosts:
    """``placement`` is ``None`` where [placement] is not configured."""

    placement: API | None
    turns: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(AT_ONCE))

    def drawn(self, root: str) -> Drawn:
        """The tree of a root provider.  :raises NoTree:"""
        if self.placement is None:
            raise NoTree("compute-registry has no [placement] auth_type, so that it can't ask it")
        if not self.turns.acquire(timeout=WAIT):
            raise NoTree("too many trees are being read: try again in a moment")
        try:
            found = read_tree(root, self.placement)
            if found is None:
                raise NoTree(f"Placement has no root provider {root} (yet)")
            return _drawn(found)
        except PlacementError as err:
            raise NoTree(str(err)) from err
        finally:
            self.turns.release()


def _drawn(found: ObservedTree) -> Drawn:
    text = draw_tree(found.snapshot, found.root, usage=found.usage, screen=SCREEN)
    try:
        return Drawn(text, svg_of(draw_picture("dot", Trees((found,))), DRAWN_WITHIN))
    except CommandError as err:
        return Drawn(text, None, err.args[0])
