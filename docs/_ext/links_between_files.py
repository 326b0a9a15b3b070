"""Links to files of the repository become links of the site, or to the file's source."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING, Any

from docutils import nodes
from sphinx.addnodes import download_reference, pending_xref

if TYPE_CHECKING:
    from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("doctree-read", resolve)
    return {"parallel_read_safe": True}


def resolve(app: Sphinx, document: nodes.document) -> None:
    """``page <page.rst#part>``, relative to its own page, as Sphinx's own references."""
    page = app.env.docname
    for link in list(document.findall(nodes.reference)):
        path, _, part = link.get("refuri", "").partition("#")
        if not path or "://" in path or path.startswith("mailto:"):
            continue
        target = posixpath.normpath(posixpath.join(posixpath.dirname(page), path))
        link.replace_self(_reference(app, page, target, part, link))


def _reference(app: Sphinx, page: str, target: str, part: str, link: nodes.reference) -> nodes.Node:
    name, extension = posixpath.splitext(target)
    options = {"refdoc": page, "refwarn": True, "refexplicit": True, "refdomain": "std"}
    if extension != ".rst" or name not in app.env.found_docs:
        words = nodes.literal("", "", *link.children)
        return download_reference("", "", words, reftarget="/" + target, **options)
    words = nodes.inline("", "", *link.children)
    if not part:
        return pending_xref("", words, reftype="doc", reftarget="/" + name, **options)
    uri = app.builder.get_relative_uri(page, name) + "#" + part
    return nodes.reference("", "", *link.children, refuri=uri, internal=True)
