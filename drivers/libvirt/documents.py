"""Pure: libvirt's XML documents, read with tolerance.

Hosts lack things and libvirt's versions differ: what is missing or makes no sense
reads as nothing, and never keeps the rest from being read.
"""

from __future__ import annotations

from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from drivers.inventory import cpu_set


def read(text: str | None) -> Element:
    """The document's root; an empty element if it is none."""
    try:
        return ET.fromstring(text or "<nothing/>")  # noqa: S314  # libvirtd is trusted: it is root
    except ET.ParseError:
        return Element("nothing")


def text_of(document: Element, path: str) -> str | None:
    """What stands at ``path``, without the space around it; ``None`` for nothing."""
    return (document.findtext(path) or "").strip() or None


def numbers(text: str | None) -> frozenset[int]:
    """The CPU numbers of ``0-1,4``; none if it can't be read."""
    try:
        return cpu_set(text or "", "")
    except ValueError:
        return frozenset()
