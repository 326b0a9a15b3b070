"""Pure: a tolerant reader of libvirt's XML documents.

Hosts lack elements and libvirt's versions differ: what is missing reads as empty, and does not keep
the rest from being read.  An amount that is there and can't be read is an error.  A document is
parsed once, when it is read.
"""

from xml.etree import ElementTree as ET
from xml.etree.ElementTree import Element

from drivers.inventory import cpu_set

LONGEST_NUMBER = 19
"""Digits of the largest number that is accepted."""
_BYTES: dict[str, int] = {"b": 1, "bytes": 1} | {
    unit: size
    for power, letter in enumerate("KMGTPE", 1)
    for unit, size in (
        (f"{letter}B", 1000**power),
        *((name, 1024**power) for name in (f"{letter}iB", letter, letter.lower())),
    )
}


def parse_document(text: str | None, tag: str) -> Element:
    """Return the root of an XML document, which has to be ``tag``.

    libvirtd can end while it writes a document, and documents contain what a device's firmware
    reports.

    :raises ValueError: with what the text is instead.
    """
    if not (text or "").strip():
        raise ValueError(f"an empty document where <{tag}> was expected")
    try:
        root = ET.fromstring(text or "")  # noqa: S314  # libvirtd is trusted: it is root
    except ET.ParseError as err:
        raise ValueError(f"a document that is cut or broken ({err})") from None
    if root.tag != tag:
        raise ValueError(f"a <{root.tag}> document where <{tag}> was expected")
    return root


def text_of(document: Element, path: str) -> str | None:
    """Return the stripped text at ``path``, or ``None``."""
    return (document.findtext(path) or "").strip() or None


def parse_cpus(text: str | None) -> frozenset[int]:
    """Return the CPU numbers of a list such as ``0-1,4``; none if it can't be parsed."""
    try:
        return cpu_set(text or "", "")
    except ValueError:
        return frozenset()


def whole_number(text: str | None) -> int | None:
    """Return a number from 0 up; ``None`` if it is invalid or longer than ``LONGEST_NUMBER``."""
    digits = (text or "").strip()
    if not (digits.isascii() and digits.isdigit()) or len(digits) > LONGEST_NUMBER:
        return None
    return int(digits)


def amount_bytes(element: Element | None, text: str | None = None, unit: str = "KiB") -> int:
    """Return an element's amount in bytes; 0 if there is no element.

    ``text`` replaces the element's own text, where the number is an attribute; ``unit`` counts for
    an element that has none.

    :raises ValueError: it is no number from 0 up, or its unit is unknown; the message has both.
    """
    if element is None:
        return 0
    text = (element.text if text is None else text) or ""
    number, size = whole_number(text), _BYTES.get(element.get("unit") or unit)
    if number is None or size is None:
        raise ValueError(f"<{element.tag}> is {text.strip()!r} in {element.get('unit') or unit}")
    return number * size
