"""Comparison of Placement's microversions.  Pure."""

import re
from functools import cache

_PATTERN = re.compile("[0-9]{1,9}[.][0-9]{1,9}")


@cache
def parse_microversion(version: str) -> tuple[int, ...]:
    """Return ``1.10`` as ``(1, 10)``.

    :raises ValueError: the text is not two decimal numbers with a dot between them.

    >>> parse_microversion("1.9") < parse_microversion("1.10")
    True
    """
    if not _PATTERN.fullmatch(version):
        raise ValueError(f"{version!r} is not a microversion such as '1.39'")
    major, minor = version.split(".")
    return int(major), int(minor)
