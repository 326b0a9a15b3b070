"""Comparison of Placement's microversions.  Pure."""

from functools import cache


@cache
def parse_microversion(version: str) -> tuple[int, ...]:
    """Return ``1.10`` as ``(1, 10)``.  :raises ValueError: the text is not a microversion.

    >>> parse_microversion("1.9") < parse_microversion("1.10")
    True
    """
    major, minor = version.split(".")
    return int(major), int(minor)
