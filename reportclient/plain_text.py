"""Text from outside made safe to print, where a terminal or a log would obey it; errors.  Pure.

Names and reasons are whatever somebody has typed: escape sequences that clear a screen, line
breaks that forge a line of a log, marks that turn the direction of writing.
"""

from unicodedata import combining, east_asian_width


def plain(text: str, keep: str = "") -> str:
    r"""The text with each character that can't be seen as its escape, but for those of ``keep``.

    Letters of any language stay.  ``keep="\n\t"`` is for text of several lines.

    >>> print(plain("h\x1b[2Jost\n42 café"))
    h\x1b[2Jost\n42 café
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def columns(text: str) -> int:
    """How many columns the text takes: letters of some languages take two, accents none."""
    if text.isascii():
        return len(text)
    return sum(
        0 if combining(letter) else 2 if east_asian_width(letter) in "WF" else 1 for letter in text
    )


_BARE = (SystemExit, LookupError, TypeError, AttributeError, NotImplementedError)
"""Errors whose text alone says nothing to who has not written the code."""
LONGEST_ERROR = 1000
"""Characters of an error's text."""


def error_text(err: BaseException) -> str:
    """Return an error's text, or its type if the text is empty or can't be read.

    At most ``LONGEST_ERROR`` characters: log lines, conditions and status files are made of it.
    """
    kind = type(err).__name__
    try:
        text = str(err)
    except Exception:  # noqa: BLE001  somebody's __str__ may raise anything
        return f"{kind} (its text can't be read)"
    if len(text) > LONGEST_ERROR:
        text = f"{text[:LONGEST_ERROR]}... ({len(text):,} characters in all)"
    if isinstance(err, _BARE):
        return f"{kind}: {text}"
    return text or kind


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")
