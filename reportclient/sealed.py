"""Serialize a JSON object together with its checksum.  Pure.

The result is plain, readable JSON: ``{"version": 1, "own": "…", "sha256": "…"}``.
"""

import hashlib
import json
from collections.abc import Mapping
from typing import Any

CHECKSUM = "sha256"
DAMAGE = (ValueError, TypeError, LookupError, AttributeError, RecursionError)
"""Exceptions that reading damaged data can raise, including too deeply nested JSON."""


def sealed(fields: Mapping[str, Any]) -> bytes:
    """Return JSON-compatible fields with their checksum as bytes."""
    return json.dumps({**fields, CHECKSUM: _checksum(fields)}, indent=1).encode() + b"\n"


def unsealed(data: bytes) -> dict[str, Any]:
    """Return the fields without the checksum.

    :raises ValueError: (or another of ``DAMAGE``) the data is damaged.

    >>> unsealed(sealed({"version": 1}))
    {'version': 1}
    """
    try:
        fields = json.loads(data)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not isinstance(fields, dict):
        raise TypeError("it is not a JSON object")
    checksum = fields.pop(CHECKSUM, None)
    if checksum != _checksum(fields):
        raise ValueError("its checksum is wrong" if checksum else "it has no checksum")
    return fields


def _checksum(fields: Mapping[str, Any]) -> str:
    """Return the checksum of the fields, independent of their order and spacing."""
    text = json.dumps(fields, separators=(",", ":"), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
