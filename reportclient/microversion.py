"""Microversions of Placement, to be compared.  Pure."""

from functools import cache


@cache
def parse_microversion(version: str) -> tuple[int, ...]:
    """``1.10`` as ``(1, 10)``.  :raises ValueError: it is no microversion.

    >>> parse_microversion("1.9") < parse_microversion("1.10")
    True
    """
    major, minor = version.split(".")
    return int(major), int(minor)
