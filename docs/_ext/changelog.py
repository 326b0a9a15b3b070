"""``.. changelog::`` is reno's report of releasenotes/notes, by the tags of the repository."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from docutils import nodes
from dulwich.errors import NotGitRepository
from reno.sphinxext import ReleaseNotesDirective
from sphinx.application import Sphinx

REPOSITORY = Path(__file__).resolve().parents[2]
MISSING = (
    "This copy of the source has neither a git repository nor reno.cache, from which reno reads the"
    " versions; the notes are in releasenotes/notes."
)
UNTAGGED = "0.0.0"
"""Reno's version of all notes before the first tag."""


def setup(app: Sphinx) -> dict[str, Any]:
    logging.getLogger("reno").setLevel(logging.WARNING)
    app.add_directive("changelog", Changelog)
    return {"parallel_read_safe": True}


class Changelog(ReleaseNotesDirective):
    """Reno's own directive, wherever Sphinx is run."""

    def _find_reporoot(self, *_: str) -> str:
        return str(REPOSITORY)

    def run(self) -> list[nodes.Node]:
        try:
            versions: list[nodes.Node] = super().run()
        except NotGitRepository:
            return [nodes.paragraph("", MISSING)]
        for title in (title for each in versions for title in each.findall(nodes.title)):
            if title.astext() == UNTAGGED:
                title[:] = [nodes.Text("In development")]
        return versions
