"""Sort names as people do: ``pf2`` before ``pf10``.  Pure."""

import re
from collections.abc import Iterable

from reportclient.model import Provider

_DIGITS = re.compile(r"(\d+)")


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a sort key that compares the numbers in a name as numbers."""
    pieces = enumerate(_DIGITS.split(name))
    return tuple((n % 2, int(piece) if n % 2 else piece) for n, piece in pieces)


def in_natural_order(providers: Iterable[Provider]) -> list[Provider]:
    """Return providers sorted by name, ``pf2`` before ``pf10``."""
    return sorted(providers, key=lambda provider: (natural_key(provider.name), provider.name))
