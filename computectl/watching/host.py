"""The live screen of this host: the agent's status, its metrics if exposed, changes."""

import http.client
import re
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass

from rich.text import Text

from agent.metrics.opts import MonitoringSettings
from agent.reporting.status import NodeStatus
from computectl.shared.screen import Screen, counted
from computectl.status import ObservedStatus, status_lines
from computectl.watching.controls import Controls
from computectl.watching.live import Change, View, padded
from reportclient.plain_text import ago, plain

PATIENCE = 3.0
"""Timeout of reading the metrics, in seconds."""
_LINE = re.compile(r"^compute_agent_(\w+?)(?:\{(.*)\})? (\S+)$", re.MULTILINE)
_OUTCOME = re.compile(r'outcome="([^"]*)"')


@dataclass(frozen=True, slots=True)
class Numbers:
    """Metrics: calls to Placement by outcome; ``verified``: time of the oldest verification."""

    calls: Counter[str]
    verified: float | None = None


def numbers(settings: MonitoringSettings) -> Numbers | None:
    """Return the agent's metrics; ``None`` if they are not configured or can't be read."""
    try:
        if settings.socket is not None:
            link = http.client.HTTPConnection("localhost", timeout=PATIENCE)
            link.sock = socket.socket(socket.AF_UNIX)
            link.sock.settimeout(PATIENCE)
            link.sock.connect(str(settings.socket))
            text = _page(link)
        elif settings.port:
            link = http.client.HTTPConnection(settings.listen, settings.port, timeout=PATIENCE)
            text = _page(link)
        elif settings.textfile is not None:
            text = settings.textfile.read_text(encoding="utf-8")
        else:
            return None
    except (OSError, http.client.HTTPException, ValueError):
        return None
    return numbers_in(text)


def numbers_in(text: str) -> Numbers:
    """Return the metrics of a text in Prometheus' format."""
    calls: Counter[str] = Counter()
    verified: list[float] = []
    for name, labels, value in _LINE.findall(text):
        if name == "placement_requests_total" and (outcome := _OUTCOME.search(labels)):
            calls[outcome[1]] += int(float(value))
        elif name == "last_verification_timestamp_seconds":
            verified.append(float(value))
    return Numbers(calls, min(verified, default=None))


def _page(link: http.client.HTTPConnection) -> str:
    with closing(link):
        link.request("GET", "/metrics")
        return link.getresponse().read().decode()


@dataclass(frozen=True, slots=True)
class ThisHost:
    """This host's status; ``numbers``: its metrics, ``None`` without [monitoring]."""

    status: ObservedStatus
    numbers: Numbers | None = None


def first_changes(now: ThisHost) -> list[Change]:
    """Return the changes of the last period, for a screen just opened."""
    at = now.status.written.updated
    return [Change(at, node.node, _period(node)) for node in now.status.written.nodes]


def changes(before: ThisHost, now: ThisHost, at: float) -> list[Change]:
    """Return the changes between two reads; a period without writes is none."""
    old, new = before.status, now.status
    differences: list[Change] = []
    if new.out_of_date != old.out_of_date:
        text, style = (new.out_of_date, "red") if new.out_of_date else ("reports again", "green")
        differences.append(Change(at, "agent", str(text), style))
    if (new.written.pid, new.written.started) != (old.written.pid, old.written.started):
        differences.append(Change(at, "agent", f"started, as pid {new.written.pid}"))
    service = new.written.service
    if service.disabled not in (old.written.service.disabled, None):
        reason = f": {service.reason}" if service.reason else ""
        style = "yellow" if service.disabled else "green"
        text = f"disabled{reason}" if service.disabled else "enabled"
        differences.append(Change(at, "service", text, style))
    differences += _of_checks(old, new, at)
    if new.written.updated != old.written.updated:
        was = {node.node: node for node in old.written.nodes}
        for node in new.written.nodes:
            differences += _of_node(was.get(node.node), node, at)
    return differences


def _of_checks(old: ObservedStatus, new: ObservedStatus, at: float) -> list[Change]:
    was = {check.name: check.ok for check in old.written.checks}
    return [
        Change(at, check.name, check.text or "ok", "green" if check.ok else "red")
        for check in new.written.checks
        if was.get(check.name, check.ok) != check.ok
    ]


def _of_node(was: NodeStatus | None, now: NodeStatus, at: float) -> list[Change]:
    differences = []
    if now.calls or now.changes or was is None:
        differences.append(Change(at, now.node, _period(now)))
    before = set(was.conditions) if was is not None else set()
    differences += [
        Change(at, now.node, str(condition), "yellow")
        for condition in now.conditions
        if condition not in before
    ]
    differences += [
        Change(at, now.node, f"no longer: {condition}", "green")
        for condition in sorted(before.difference(now.conditions), key=str)
    ]
    return differences


def _period(node: NodeStatus) -> str:
    calls = counted(node.calls, "call")
    what = node.changes or "nothing to change"
    return f"{node.occasion}: {what}; {calls}, {node.seconds:.1f} s"


KEYS = "q quit  PgUp PgDn"


def host_view(seen: ThisHost, _: Controls, width: int) -> View[Text]:
    """Return the screen of this host: the lines of ``computectl status``, and its calls."""
    status, screen = seen.status, Screen(width, colour=True)
    lines = [*status_lines(status, screen), *_calls(seen)]
    word, style = status.health
    return View(
        [(f"compute-agent on {status.written.host}", "bold"), (word, style or "")],
        status.out_of_date,
        list(Text.from_ansi(screen.fold("\n".join(lines))).split("\n")),
        padded,
        KEYS,
    )


def _calls(seen: ThisHost) -> Iterator[str]:
    if seen.numbers is None:
        return
    calls, verified = seen.numbers.calls, seen.numbers.verified
    others = "".join(f", {many} {what}" for what, many in calls.most_common() if what != "ok")
    text = f"  calls to Placement: {calls.total()} since compute-agent started{others}"
    if verified is not None:
        text += f"; verified {ago(max(0.0, seen.status.now - verified))} ago"
    yield plain(text)
