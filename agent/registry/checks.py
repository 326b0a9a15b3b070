"""Reads each argument of a call, before it reaches a record.  Pure.

Callers are agents, tools and anybody with a credential of the broker.  Databases treat invalid
arguments differently: some truncate, some ignore a trailing space, some fail as if they were
down.  So invalid arguments are refused here, with an error for the sender, and what has several
spellings is returned in one: UUIDs with dashes in lower case, roots sorted and once each.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypeGuard
from uuid import UUID

from agent.errors import InputRefused, ReasonRefused, UnknownHost
from reportclient.plain_text import plain

LONGEST = 255
MOST_DEGRADED = 2000
"""Characters of all conditions that a heartbeat reports."""
AUTO = "AUTO: "
"""The prefix of reasons that a program gave."""
MOST_ROOTS = 20_000
"""Root providers of one host."""
LARGEST_VERSION = 2**31 - 1
ABOUT_AGENT = ("address", "rpc_version", "attached", "agent_version", "degraded")
"""Fields of a report that the record of its host has, too, beside ``host`` and ``roots``."""

_UUID = re.compile(r"[0-9a-fA-F]{8}(-?[0-9a-fA-F]{4}){3}-?[0-9a-fA-F]{12}")
_RPC_VERSION = re.compile(r"\d{1,9}\.\d{1,9}", re.ASCII)
_NOT_STORED = re.compile("[\0\ud800-\udfff]")
_BREAKS = re.compile(r"\s+")
_LINES = f"lines of at most {MOST_DEGRADED} characters together"
_LINE = f"a line of at most {LONGEST} characters"


def is_text(text: object) -> TypeGuard[str]:
    """Return whether each supported database can store this text."""
    # A surrogate is half of a character, or a byte of a command line.
    return isinstance(text, str) and not _NOT_STORED.search(text)


def is_uuid(text: object) -> TypeGuard[str]:
    """Return whether the text is a UUID, with or without dashes."""
    return isinstance(text, str) and _UUID.fullmatch(text) is not None


def is_host(host: object) -> TypeGuard[str]:
    """Return whether a service can have this name: 1 to 255 printable characters, no blanks."""
    if not isinstance(host, str) or not 0 < len(host) <= LONGEST:
        return False
    return host.isprintable() and " " not in host


def require_host(host: object) -> None:
    """:raises UnknownHost: nobody can have this name."""
    if not is_host(host):
        raise UnknownHost(f"no service has the host name {_quoted(host)}: not a valid name")


def require_uuid(uuid: object) -> str:
    """Return a UUID as it is stored.  :raises UnknownHost: it is no UUID."""
    if not is_uuid(uuid):
        raise UnknownHost(f"no service has the UUID {_quoted(uuid)}: not a valid UUID")
    return str(UUID(uuid))


@dataclass(frozen=True, slots=True)
class HeartbeatMessage:
    """A heartbeat: what the agent of a host reports.

    :raises InputRefused: a field is invalid; the text names it.
    """

    host: str
    address: str
    """From :func:`agent.switching.heartbeat.agent_address`.  It has to be the same after a restart
    of the agent: with another one the restarted agent is refused until the old one counts as down.
    """
    rpc_version: str | None = None
    roots: tuple[str, ...] = ()
    """The UUIDs of the root providers; sorted, and each once, whatever the caller gave."""
    attached: bool = False
    agent_version: str = ""
    degraded: str = ""
    """Conditions of the host that need an operator, a line for each; empty if there are none."""
    replaces: str = ""
    """When the agent at another address, from which this one takes over, was last heard
    (``last_seen`` in ISO format); empty if this agent knows of none.  Without it a recorded
    heartbeat of an earlier life could take over the record: it is refused with :class:`Changed`."""
    known_version: int | None = None
    """The version of the record that the agent has seen, if it reports nothing new."""

    def __post_init__(self) -> None:
        _require(is_host(self.host), "host", self.host, f"1 to {LONGEST} characters, no blanks")
        own = is_text(self.address) and self.address == self.address.strip() != ""
        _require(own and _is_line(self.address), "address", self.address, _LINE)
        _require(_is_line(self.agent_version), "agent_version", self.agent_version, _LINE)
        text = self.degraded
        short = is_text(text) and len(text) <= MOST_DEGRADED and text.replace("\n", "")
        _require(short == "" or (short and short.isprintable()), "degraded", text, _LINES)
        rpc = self.rpc_version
        is_version = rpc is None or (isinstance(rpc, str) and _RPC_VERSION.fullmatch(rpc))
        _require(is_version, "rpc_version", rpc, "like 6.5")
        few = isinstance(self.roots, list | tuple) and len(self.roots) <= MOST_ROOTS
        _require(few, "roots", type(self.roots), f"a list of at most {MOST_ROOTS} UUIDs")
        for root in self.roots:
            _require(is_uuid(root), "roots", root, "UUIDs")
        flag("attached", self.attached)
        versions(self.known_version)
        try:
            self.replaced_at()
        except (TypeError, ValueError, OverflowError):
            _require(False, "replaces", self.replaces, "a time")
        object.__setattr__(self, "roots", tuple(sorted({str(UUID(root)) for root in self.roots})))

    def replaced_at(self) -> float:
        """Return ``replaces`` in seconds since the epoch; 0 if it is empty."""
        return datetime.fromisoformat(self.replaces).timestamp() if self.replaces != "" else 0.0

    def about_agent(self) -> dict[str, Any]:
        """Return the fields ``ABOUT_AGENT``."""
        return {name: getattr(self, name) for name in ABOUT_AGENT}


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusChange:
    """A change that disables or enables a host.

    :raises UnknownHost: no host can have this name.
    :raises InputRefused: ``disabled`` is no boolean, or a version is invalid.
    :raises ReasonRefused: see :func:`reason`.
    """

    host: str = field(kw_only=False)
    disabled: bool
    reason: str | None = None
    """Text for people; stored as one line, without control characters."""
    expected_version: int | None = None
    """The version that the caller read, so that a message that is delivered twice, or late,
    changes nothing: a host's own change is refused (:class:`Changed`) if the record has another
    version, an operator's if another operator has changed the record since."""
    new_version: int | None = None
    """For a host's own change: the record's version after it, so that a caller whose reply was
    lost can recognize its change.  An operator leaves the choice to the registry."""

    def __post_init__(self) -> None:
        require_host(self.host)
        flag("disabled", self.disabled)
        versions(self.expected_version, self.new_version)
        by_host = self.new_version is not None
        text = reason(disabled=self.disabled, reason=self.reason, by_host=by_host)
        object.__setattr__(self, "reason", text)


def flag(name: str, value: object) -> None:
    """:raises InputRefused: it is neither true nor false."""
    _require(isinstance(value, bool), name, value, "true or false")


def versions(expected: Any, new: Any = None) -> None:
    """Check the version that a change was made for, and the one that it leads to, if named.

    :raises InputRefused: one is no version of a record, or ``new`` is not the next one.
    """
    for name, value in {"expected_version": expected, "new_version": new}.items():
        valid = value is None or _is_number(value, 0, LARGEST_VERSION)
        _require(valid, name, value, "a number from 0 on, or none")
    next_one = new is None or new - 1 == expected
    _require(next_one, "new_version", new, "the one after expected_version")


def page(after: object, limit: object) -> None:
    """:raises InputRefused: it is no page of a list."""
    valid = is_text(after) and len(after) <= LONGEST
    _require(valid, "after", after, "a host name, or empty")
    valid = limit is None or _is_number(limit, 1, LARGEST_VERSION)
    _require(valid, "limit", limit, "a number from 1 on")


def reason(*, disabled: bool, reason: object, by_host: bool = False) -> str | None:
    """Return the reason as it is stored: one line, without control characters.

    :param by_host: whether it is for a host's own change, not for an operator's.
    :raises ReasonRefused: it is empty, longer than 255 characters, comes with an enabled host,
        begins with ``AUTO`` though an operator gives it, or has what no database takes as text:
        NUL, or bytes that were no UTF-8.
    """
    if reason is None:
        return None
    if not is_text(reason):
        raise ReasonRefused("the reason has characters that can't be stored: NUL, or invalid UTF-8")
    text = one_line(reason)
    if not text:
        raise ReasonRefused("the reason is empty: give one, or leave it out")
    if not disabled:
        raise ReasonRefused("an enabled host has no reason: leave it out, or disable the host")
    if text.startswith(AUTO) and not by_host:
        what = f"the reason begins with {AUTO.strip()}, as those of agents"
        raise ReasonRefused(f"{what}, which enable such a host again: give it without that")
    if len(text) > LONGEST:
        raise ReasonRefused(f"the reason has {len(text)} characters; at most {LONGEST} are allowed")
    return text


def one_line(text: str) -> str:
    """Return the text in one line, without control characters."""
    return plain(_BREAKS.sub(" ", text).strip())


def degraded_text(conditions: Iterable[str]) -> str:
    """Return conditions as a heartbeat reports them: a line each, as many as fit, and a number."""
    lines = [one_line(text)[:LONGEST] for text in conditions]
    shown, room = list[str](), MOST_DEGRADED - len("and 99999 more")
    for line in lines:
        room -= len(line) + 1
        if room < 0:
            return "\n".join([*shown, f"and {len(lines) - len(shown)} more"])
        shown.append(line)
    return "\n".join(shown)


def _is_number(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


def _is_line(text: object) -> bool:
    return is_text(text) and text.isprintable() and len(text) <= LONGEST


def _require(valid: object, name: str, value: object, what: str) -> None:
    if not valid:
        raise InputRefused(f"{name} {_quoted(value)}: it has to be {what}")


def _quoted(value: object) -> str:
    """Return the value as ASCII, shortened."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:60]}… ({len(text)} characters)"
