"""Texts for people: escape untrusted text, shorten errors, sort names, show durations.  Pure.

Provider names and reasons may contain anything: escape sequences that clear a screen, line
breaks that forge a log line, marks that reverse the direction of writing.
"""

import re
from collections.abc import Iterable, Sequence

from reportclient.model import Provider


def plain(text: str, keep: str = "") -> str:
    r"""Return the text with each unprintable character escaped, except those in ``keep``.

    Letters of any language stay.  ``keep="\n\t"`` is for text of several lines.

    >>> print(plain("h\x1b[2Jost\n42 café"))
    h\x1b[2Jost\n42 café
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escaped(c) for c in text)


def first_few(names: Sequence[str], shown: int = 5) -> str:
    """Return the first names, and the number of the others: ``a, b and 3 more``."""
    more = f" and {len(names) - shown} more" if len(names) > shown else ""
    return ", ".join(names[:shown]) + more


_BARE = (SystemExit, LookupError, TypeError, AttributeError, NotImplementedError)
"""Exceptions whose text means little without the name of their type."""
LONGEST_ERROR = 1000
"""Maximum number of characters of an error's text."""


def error_text(err: BaseException) -> str:
    """Return an exception's text, or its type if the text is empty or ``str()`` fails.

    The text is cut after ``LONGEST_ERROR`` characters, since it goes into log lines and files.
    """
    kind = type(err).__name__
    try:
        text = str(err)
    except BaseException:  # noqa: BLE001  somebody's __str__ may raise anything
        return f"{kind} (its text can't be read)"
    if len(text) > LONGEST_ERROR:
        text = f"{text[:LONGEST_ERROR]}... ({len(text):,} characters in all)"
    if isinstance(err, _BARE):
        return f"{kind}: {text}"
    return text or kind


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def ago(seconds: float | None) -> str:
    """Return a duration as ``90 s``, ``5 min``, ``3 h`` or ``12 d``; ``never`` for ``None``."""
    if seconds is None:
        return "never"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 172800 else f"{seconds / 86400:.0f} d"


def shortened(text: str, width: int) -> str:
    """Return a text of at most ``width`` characters: a longer one lacks its middle."""
    half = (width - 1) // 2
    return text if len(text) <= width else f"{text[:half]}…{text[half + 1 - width :]}"


_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key that compares the numbers in a name as numbers."""
    pieces = enumerate(_DIGITS.split(name))
    return tuple((n % 2, int(piece) if n % 2 else piece) for n, piece in pieces)


def in_natural_order(providers: Iterable[Provider]) -> list[Provider]:
    """Return providers sorted by name, ``pf2`` before ``pf10``."""
    return sorted(providers, key=lambda provider: (natural_key(provider.name), provider.name))
