"""This host, as a screen has it: the agent's status, its numbers, what changed."""

import http.client
import re
import socket
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from agent.cli.shared.command_session import Session
from agent.cli.status import SeenStatus, seen_status
from agent.cli.watching.feed import Change
from agent.metrics.opts import MonitoringSettings
from agent.told.status_schema import NodeStatus

PATIENCE = 3.0
"""Seconds; it is on this machine."""
_LINE = re.compile(r"^compute_agent_(\w+?)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_OUTCOME = re.compile(r'outcome="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Numbers:
    """``calls`` to Placement since the agent started, by outcome; ``verified`` by the clock."""

    calls: Counter[str]
    verified: float | None = None
    queue: int = 0


def numbers(settings: MonitoringSettings) -> Numbers | None:
    """``None`` if there are none, or nobody answers."""
    try:
        text = _text(settings)
    except (OSError, http.client.HTTPException, ValueError):
        return None
    return None if text is None else numbers_in(text)


def numbers_in(text: str) -> Numbers:
    """Of a page for Prometheus."""
    calls: Counter[str] = Counter()
    verified: list[float] = []
    queue = 0
    for name, labels, value in _LINE.findall(text):
        if name == "placement_requests_total" and (outcome := _OUTCOME.search(labels)):
            calls[outcome[1]] += int(float(value))
        elif name == "last_verification_timestamp_seconds":
            verified.append(float(value))
        elif name == "loop_queue_length":
            queue = int(float(value))
    return Numbers(calls, min(verified, default=None), queue)


def _text(settings: MonitoringSettings) -> str | None:
    if settings.socket is not None:
        return _page(_OverSocket(settings.socket))
    if settings.port:
        return _page(http.client.HTTPConnection(settings.listen, settings.port, timeout=PATIENCE))
    if settings.textfile is not None:
        return settings.textfile.read_text(encoding="utf-8")
    return None


def _page(link: http.client.HTTPConnection) -> str:
    with closing(link):
        link.request("GET", "/metrics")
        return link.getresponse().read().decode()


class _OverSocket(http.client.HTTPConnection):
    def __init__(self, path: Path) -> None:
        super().__init__("localhost", timeout=PATIENCE)
        self._path = path

    def connect(self) -> None:
        """To the unix socket."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(PATIENCE)
        self.sock.connect(str(self._path))


@dataclass(frozen=True, slots=True)
class ThisHost:
    """``numbers`` are there where [monitoring] is on."""

    status: SeenStatus
    numbers: Numbers | None = None

    @classmethod
    def of(cls, session: Session) -> "ThisHost":
        """As it is now.  :raises CommandError: the agent has never run here."""
        return cls(seen_status(session), numbers(session.settings.monitoring))


def first_changes(now: ThisHost) -> list[Change]:
    """What the last period did, to begin with."""
    at = now.status.written.updated
    return [Change(at, node.node, _period(node)) for node in now.status.written.nodes]


def changes(before: ThisHost, now: ThisHost, at: float) -> list[Change]:
    """What is otherwise now; a period that had nothing to do is no change."""
    old, new = before.status, now.status
    found: list[Change] = []
    if new.out_of_date != old.out_of_date:
        said, style = (new.out_of_date, "red") if new.out_of_date else ("it reports again", "green")
        found.append(Change(at, "agent", str(said), style))
    if (new.written.pid, new.written.started) != (old.written.pid, old.written.started):
        found.append(Change(at, "agent", f"started, as pid {new.written.pid}"))
    if new.service.disabled != old.service.disabled and new.service.disabled is not None:
        reason = f": {new.service.reason}" if new.service.reason else ""
        style = "yellow" if new.service.disabled else "green"
        text = f"disabled{reason}" if new.service.disabled else "enabled"
        found.append(Change(at, "service", text, style))
    found += _of_checks(old, new, at)
    if new.written.updated != old.written.updated:
        was = {node.node: node for node in old.written.nodes}
        for node in new.written.nodes:
            found += _of_node(was.get(node.node), node, at)
    return found


def _of_checks(old: SeenStatus, new: SeenStatus, at: float) -> list[Change]:
    was = {one.name: one.ok for one in old.written.checks}
    return [
        Change(at, one.name, one.text or "ok", "green" if one.ok else "red")
        for one in new.written.checks
        if was.get(one.name, one.ok) != one.ok
    ]


def _of_node(was: NodeStatus | None, now: NodeStatus, at: float) -> list[Change]:
    found = []
    if now.calls or now.changes or was is None:
        found.append(Change(at, now.node, _period(now)))
    before = set(was.conditions) if was is not None else set()
    found += [
        Change(at, now.node, str(one), "yellow") for one in now.conditions if one not in before
    ]
    found += [
        Change(at, now.node, f"no longer: {one}", "green")
        for one in sorted(before.difference(now.conditions), key=str)
    ]
    return found


def _period(node: NodeStatus) -> str:
    took = "" if node.seconds is None else f", {node.seconds:.1f} s"
    calls = f"{node.calls} call{'' if node.calls == 1 else 's'}"
    return f"{node.occasion}: {node.changes or 'nothing to change'}; {calls}{took}"
