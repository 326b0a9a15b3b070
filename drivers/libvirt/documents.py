"""Pure: libvirt's XML documents, read with tolerance.

Hosts lack things and libvirt's versions differ: what is missing or makes no sense
reads as nothing, and never keeps the rest from being read.
"""

from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from drivers.inventory import cpu_set

LONGEST_NUMBER = 18
"""Digits."""
_BYTES: dict[str, int] = {"b": 1, "bytes": 1} | {
    name: size
    for power, letter in enumerate("KMGTPE", 1)
    for name, size in (
        (f"{letter}B", 1000**power),
        (f"{letter}iB", 1024**power),
        (letter, 1024**power),
        (letter.lower(), 1024**power),
    )
}


def read(text: str | None) -> Element:
    """The document's root; an empty element if it is none."""
    try:
        return ET.fromstring(text or "<nothing/>")  # noqa: S314  # libvirtd is trusted: it is root
    except ET.ParseError:
        return Element("nothing")


def checked(text: str | None, tag: str) -> str:
    """``text``, if it is a document whose root is ``tag``.

    libvirt can be ended while it writes one, and what a device's firmware says is in it.

    :raises ValueError: what it is instead.
    """
    if not (text or "").strip():
        raise ValueError(f"an empty document where <{tag}> was expected")
    try:
        root = ET.fromstring(text or "").tag  # noqa: S314  # libvirtd is trusted: it is root
    except ET.ParseError as err:
        raise ValueError(f"a document that is cut or broken ({err})") from None
    if root != tag:
        raise ValueError(f"a <{root}> document where <{tag}> was expected")
    return text or ""


def text_of(document: Element, path: str) -> str | None:
    """Return the stripped text at ``path``, or ``None``."""
    return (document.findtext(path) or "").strip() or None


def numbers(text: str | None) -> frozenset[int]:
    """The CPU numbers of ``0-1,4``; none if it can't be read."""
    try:
        return cpu_set(text or "", "")
    except ValueError:
        return frozenset()


def whole(text: str | None) -> int | None:
    """A number from 0 up; ``None`` if it is none, or one that no host has."""
    digits = (text or "").strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > LONGEST_NUMBER:
        return None
    return int(digits)


def kib(element: Element | None, text: str | None = None) -> int:
    """Return an element's amount in KiB, by its ``unit`` (default KiB); 0 for none.

    ``text`` stands for the element's own, where the number is an attribute.
    """
    if element is None:
        return 0
    number = whole(element.text if text is None else text)
    return (number or 0) * _BYTES.get(element.get("unit") or "KiB", 0) // 1024
