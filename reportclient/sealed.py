"""A JSON object as bytes that carry their own checksum, and back.  Pure.

It stays plain JSON, for people too: ``{"version": 1, "own": "…", "sha256": "…"}``.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

CHECKSUM = "sha256"
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""What reading something else raises; nesting too deep to be read is damage like any other."""


def sealed(fields: Mapping[str, Any]) -> bytes:
    """The fields, which JSON has to have, with their checksum."""
    return json.dumps({**fields, CHECKSUM: _checksum(fields)}, indent=1).encode() + b"\n"


def unsealed(data: bytes) -> dict[str, Any]:
    """The fields, without the checksum.  :raises ValueError: (or another of ``DAMAGE``) saying why.

    >>> unsealed(sealed({"version": 1}))
    {'version': 1}
    """
    try:
        fields = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(fields, dict):
        raise TypeError("it is no JSON object")
    checksum = fields.pop(CHECKSUM, None)
    if checksum != _checksum(fields):
        raise ValueError("its checksum is wrong" if checksum else "it has no checksum")
    return fields


def _checksum(fields: Mapping[str, Any]) -> str:
    """Return the checksum of the fields, whatever their order and spacing."""
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
