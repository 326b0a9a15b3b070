"""The form of a message from the bus.  Pure.

Every user of the broker can write to every queue.  oslo.messaging takes a message apart before it
calls anything of ours; an exception there closes the channel, and stops its listener for a second.
"""

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from agent.errors import MessagingError

TOPIC = "compute"
"""The topic of calls to agents, as of those to Nova's compute service."""
WAITED = "waited_unheard"
"""The key in the context of a call that waited in the queue while the agent did not listen."""
OK, REFUSED, FAILED = "ok", "refused", "failed"
"""The outcomes of a call."""
LARGEST = 16 * 2**20
"""Bytes of a message: a heartbeat with 100,000 roots has 4 MiB."""
LONGEST = 255
"""Characters of a name; the name of a queue has no more."""
DEEPEST = 50
"""Levels of lists and objects within each other."""
_NAMES = ("namespace", "_msg_id", "_reply_q", "_unique_id")
_VALUES = (str, int, float, bool, type(None), list, dict)
_NAME = re.compile(f"[ -~]{{1,{LONGEST}}}")
_VERSION = re.compile(r"[0-9]{1,9}\.[0-9]{1,9}(\.[0-9]{1,9})?")


class Malformed(MessagingError):
    """A message that no client of oslo.messaging sends."""


def check_reply(message: Mapping[str, Any]) -> None:
    """:raises Malformed: the reply names no call."""
    if not _is_name(message.get("_msg_id")):
        raise Malformed("_msg_id is no name")


def check_call(message: Mapping[str, Any]) -> None:
    """:raises Malformed: a field of the call has a wrong type or length, or is too deep."""
    if not _is_name(message.get("method")):
        raise Malformed("method is no name")
    if not isinstance(message.get("args", {}), dict):
        raise Malformed("args is no object")
    for field in _NAMES:
        if message.get(field) is not None and not _is_name(message[field]):
            raise Malformed(f"{field} is no name")
    version, timeout = message.get("version"), message.get("_timeout")
    if version is not None and not (isinstance(version, str) and _VERSION.fullmatch(version)):
        raise Malformed("version is not like 1.0")
    if timeout is not None and not _is_time(timeout):
        raise Malformed("_timeout is no number of seconds")
    _check_values(message)


def _is_name(value: object) -> bool:
    return isinstance(value, str) and _NAME.fullmatch(value) is not None


def _is_time(value: object) -> bool:
    return isinstance(value, int | float) and value is not True and isfinite(value) and value >= 0


def _check_values(values: Any, depth: int = 0) -> None:
    """:raises Malformed: a value is too deep, or not one of JSON: kombu makes dates and others."""
    if depth == DEEPEST:
        raise Malformed(f"more than {DEEPEST} levels of lists and objects")
    for part in values.values() if isinstance(values, Mapping) else values:
        if not isinstance(part, _VALUES):
            raise Malformed(f"a value of the type {type(part).__name__}")
        if isinstance(part, list | dict):
            _check_values(part, depth + 1)
