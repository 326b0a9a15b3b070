"""Messages that no client of oslo.messaging sends, and that any user of the broker can send."""

import json
import uuid
from typing import Any

_CALL: dict[str, Any] = {
    "method": "list_services",
    "args": {"after": "", "limit": 1},
    "namespace": "compute-registry",
    "version": "1.0",
}
DEEP = 900
"""Levels that can be parsed, but not copied."""


def _nested(levels: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(levels):
        value = [value]
    return value


CALLS: dict[str, dict[str, Any]] = {
    "a list as method": _CALL | {"method": []},
    "no method": {"args": {}},
    "an empty method": _CALL | {"method": ""},
    "a long method": _CALL | {"method": "a" * 256},
    "a list as arguments": _CALL | {"args": [1]},
    "no arguments": _CALL | {"args": None},
    "a list as namespace": _CALL | {"namespace": []},
    "a list as version": _CALL | {"version": []},
    "a version without number": _CALL | {"version": "one"},
    "a version without second number": _CALL | {"version": "1"},
    "a list as timeout": _CALL | {"_timeout": [4]},
    "a truth as timeout": _CALL | {"_timeout": True},
    "a list as reply queue": _CALL | {"_msg_id": "a", "_reply_q": []},
    "a reply queue in two lines": _CALL | {"_msg_id": "a", "_reply_q": "a\nb"},
    "a list as id of the call": _CALL | {"_msg_id": []},
    "an object as id of the message": _CALL | {"_unique_id": {"a": 1}},
    "an infinite timeout": _CALL | {"_timeout": float("inf")},
    "a negative timeout": _CALL | {"_timeout": -1},
    "an argument of 900 levels": _CALL | {"args": {"after": _nested(DEEP)}},
    "a context of 900 levels": _CALL | {"_context_a": _nested(DEEP)},
}
"""Calls that are dropped, by what is wrong."""
REFUSED: dict[str, dict[str, Any]] = {
    "an unknown argument": _CALL | {"args": {"nothing": 1}},
    "another method's name": _CALL | {"method": "__class__"},
    "another attribute's name": _CALL | {"method": "target"},
    "another version": _CALL | {"version": "9.0", "_timeout": 4},
    "another namespace": _CALL | {"namespace": "nova", "_timeout": 4},
    "a context named self": _CALL | {"_context_self": 1},
    "a heartbeat without host": _CALL | {"method": "keep_alive", "args": {}},
    "half a character as signer": _CALL | {"_context_signed_by": "\ud800"},
    "signatures of another type": _CALL | {"_context_signatures": {"a": []}},
}
"""Calls in the right form that have something wrong."""
TYPED = {
    "uuid": {"hex": uuid.UUID(int=1).hex},
    "date": "2026-01-01",
    "datetime": "2026-01-01T00:00:00",
    "decimal": "1.5",
    "time": "00:00:00",
}
"""Values that kombu makes objects of, by its name of their type."""
BYTES: dict[str, bytes] = {
    "no JSON": b"{",
    "not in UTF-8": b"\xff\xfe",
    "a list": b"[1]",
    "a list in an envelope": b'{"oslo.version": "2.0", "oslo.message": "[1]"}',
    **{
        f"a {kind} as argument": json.dumps(
            _CALL | {"args": {"after": {"__type__": kind, "__value__": value}, "limit": 1}}
        ).encode()
        for kind, value in TYPED.items()
    },
    "an envelope of another version": b'{"oslo.version": [], "oslo.message": 1}',
}


def messages() -> list[bytes]:
    """Return each once; those that ask for an answer do so at a queue that is not there."""
    found = list(BYTES.values())
    for call in (*CALLS.values(), *REFUSED.values()):
        nowhere = {"_msg_id": "a", "_reply_q": f"reply_{uuid.uuid4().hex}"}
        found += [enveloped(call), enveloped(nowhere | call)]
    return found


def enveloped(message: dict[str, Any]) -> bytes:
    """Return a message as oslo.messaging packs it."""
    return json.dumps({"oslo.version": "2.0", "oslo.message": json.dumps(message)}).encode()
