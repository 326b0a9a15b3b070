"""Read a row of the table ``services`` as a record, also a damaged row.  Pure.

A column that can't be read counts as unknown and is named in the record, so that one damaged
row does not make a list fail.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from agent.registry.checks import is_uuid
from agent.registry.record import BINARY, ServiceRecord
from reportclient.plain_text import plain


def record_from_row(row: Mapping[str, Any]) -> ServiceRecord:
    """Return the record of a row; ``damaged`` has the columns that can't be read."""
    values, damaged = dict(row), []
    for name, (read, unknown) in _READERS.items():
        column = row[name]
        try:
            values[name] = None if column is None and unknown is None else read(column)
        except (TypeError, ValueError, OverflowError, OSError):
            values[name] = unknown
            damaged.append(name)
    values["host"] = values["host"] or plain(ascii(row["host"]))
    if "roots" in damaged:
        values["roots"] = _uuids_in(row["roots"])
    # After the database's clock was set back the difference would be negative.
    seen, silent = values["last_seen"], row["silent_for"]
    values["silent_for"] = None if seen is None or silent is None else max(0.0, float(silent))
    return ServiceRecord(**values, damaged=tuple(damaged))


def _time(value: Any) -> datetime:
    return datetime.fromtimestamp(value, UTC)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int):
        raise TypeError
    return value


def _roots(value: Any) -> tuple[str, ...]:
    uuids = tuple(_text(value).split())
    if not all(map(is_uuid, uuids)):
        raise ValueError
    return uuids


def _uuids_in(value: Any) -> tuple[str, ...]:
    return tuple(filter(is_uuid, value.split())) if isinstance(value, str) else ()


_READERS: Mapping[str, tuple[Callable[[Any], Any], Any]] = {
    "uuid": (_text, ""),
    "host": (_text, ""),
    "binary": (_text, BINARY),
    "disabled": (bool, False),  # numbers in some databases
    "disabled_reason": (lambda value: plain(_text(value)), None),  # for one line of a terminal
    "disabled_at": (_time, None),
    "forced_down": (bool, False),
    "rpc_version": (_text, None),
    "last_seen": (_time, None),
    "roots": (_roots, ()),
    "address": (_text, None),
    "contested_by": (_text, None),
    "version": (_number, 0),
    "attached": (bool, False),  # NULL until the agent's first heartbeat
}
"""By column: its reader, and the value if it can't be read."""
