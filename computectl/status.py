"""``computectl status``: the state of this host's agent, from the file that the agent writes."""

import argparse
import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from operator import itemgetter
from pathlib import Path
from typing import Any

from agent.reporting import status as schema
from agent.reporting.condition import CHECKS, Condition, Severity, of_disk, texts_of
from agent.state import files
from agent.state.lock import holder
from agent.switching.machine import REASON_FOUND
from computectl.reading.status_file import LaterVersion, from_json, lives
from computectl.shared.command_session import Session
from computectl.shared.commands import SEVERITY_STYLES, DrawnOrListed, Table, argument
from computectl.shared.errors import PROBLEMS, RERUN, RESTART, CommandError
from computectl.shared.screen import Screen, StyledText, counted, iso
from reportclient.plain_text import ago, plain


@dataclass(frozen=True, slots=True)
class ObservedStatus:
    """The agent's last status; ``now`` in seconds since the epoch; ``alive``: the process runs."""

    written: schema.AgentStatus
    now: float
    alive: bool
    pid: int | None = None
    """The process with the lock of ``state_path``; 0 if it is not visible, ``None`` without one."""

    @property
    def out_of_date(self) -> str | None:
        """Return why the status is out of date; ``None`` if it is not."""
        if not self.alive:
            return f"not running (its last pid was {self.written.pid})"
        if self.pid and self.pid != self.written.pid:
            return f"process {self.pid} runs, and has written no status yet: this one is older"
        return self.written.stuck(self.now)

    @property
    def last_period(self) -> str:
        """Return when the last period was, or when the first report is due."""
        since = ago(max(0.0, self.now - self.written.updated))
        if (due := self.written.first_due) is None:
            return f"last period {since} ago"
        when = f"due in {ago(due - self.now)}" if due > self.now else "not finished yet"
        return f"started {since} ago, first report {when}"

    @property
    def health(self) -> StyledText:
        """Return a word for the agent's health."""
        if not self.alive:
            return "not running, its last status", "red"
        if self.written.first_due is not None and self.out_of_date is None:
            return "starting", "yellow"
        if not self.well:
            return "not well", "red"
        ill = any(texts_of(node.conditions, Severity.DEGRADED) for node in self.written.nodes)
        return ("degraded", "yellow") if ill else ("well", "green")

    @property
    def well(self) -> bool:
        """Whether the status is up to date and has no errors."""
        return self.out_of_date is None and not any(self.written.checks.values())


TIMES = frozenset({"last_ok", "updated", "since", "first_due"})
"""Fields of ``status.json`` in seconds since the epoch; ``-f`` prints them as ISO 8601."""


class ShowStatus(DrawnOrListed[ObservedStatus]):
    """Show the state of compute-agent on this host.

    Shows whether the host takes new guests, and for each node errors, warnings and pending
    reshapes. Reads a file that the agent writes after each period, neither Placement nor the
    drivers. Exits with 1 if the agent is not running, is stuck, has not reported yet, or
    reports errors. A degraded host, such as one with an unhealthy device, is no error:
    Placement has all that the drivers reported.
    """

    wraps = True
    examples = """\
  computectl status             for people
  computectl status -f json     for a health check
  computectl status --sources   with the time that each source of the drivers took
"""
    arguments = (
        argument(
            "--sources",
            action="store_true",
            help="show how long each source of the drivers took in the last period",
        ),
    )

    def execute(self, options: argparse.Namespace) -> ObservedStatus:
        return observed_status(self.session())

    def draw(
        self, answer: ObservedStatus, screen: Screen, options: argparse.Namespace
    ) -> Iterator[str]:
        return status_lines(answer, screen, sources=options.sources)

    def table(self, answer: ObservedStatus) -> Table:
        """Return a row for each node, with the fields of the node and of the file."""
        file = json.loads(json.dumps(answer.written.as_json()), object_hook=_with_iso_times)
        nodes = file.pop("nodes")
        names = [*(each.name for each in fields(schema.NodeStatus)), *file]
        return {name: itemgetter(name) for name in names}, [{**file, **node} for node in nodes]

    def exit_code(self, answer: ObservedStatus, options: argparse.Namespace) -> int:
        """Return 0 if the agent is healthy, else 1."""
        if answer.out_of_date is not None:
            step = "journalctl -u compute-agent says why"
            self.print_on_stderr(
                f"compute-agent on {answer.written.host}: {answer.out_of_date}; {step}"
            )
        return 0 if answer.well else PROBLEMS


def _with_iso_times(record: dict[str, Any]) -> dict[str, Any]:
    times = {name: record[name] for name in TIMES & record.keys() if record[name] is not None}
    return record | {name: iso(at) for name, at in times.items()}


def observed_status(session: Session) -> ObservedStatus:
    """Return the agent's status.  :raises CommandError: the file is missing or can't be read."""
    path = session.settings.state_path / schema.FILE_NAME
    pid, disk = holder(path.parent), _unwritable(path.parent)
    try:
        written = from_json(json.loads(files.read(path)))
    except FileNotFoundError:
        step = "has compute-agent run here?"
        if pid is not None:
            step = f"compute-agent runs, and {disk or 'has written no status yet'}"
        raise CommandError(f"no {path}", step, PROBLEMS) from None
    except OSError as err:
        raise CommandError(f"{path}: {files.describe_error(err)}", RERUN) from err
    except LaterVersion as err:
        what = f"{path} has format version {err}, this computectl reads {schema.VERSION}"
        step = "use the computectl of the agent's version, or restart compute-agent"
        raise CommandError(what, step) from None
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError):
        raise CommandError(f"{path} is damaged", RESTART, PROBLEMS) from None
    if disk:  # the agent could not write that
        service = written.service
        conditions = (*service.conditions, of_disk(disk))
        written = replace(written, service=replace(service, conditions=conditions))
    alive = pid is not None or lives(written.pid, written.started)
    return ObservedStatus(written, time.time(), alive, pid)


def _unwritable(directory: Path) -> str:
    """Return why nothing can be written to a directory, whose disk is read-only or full now."""
    try:
        disk = os.statvfs(directory)
    except OSError:
        return ""
    if disk.f_flag & os.ST_RDONLY:
        return f"{directory} is read-only"
    return f"{directory} is full" if disk.f_blocks and not disk.f_bavail else ""


def status_lines(status: ObservedStatus, screen: Screen, *, sources: bool = False) -> Iterator[str]:
    """Yield the status as text, line by line."""
    written = status.written
    host = screen.paint(plain(written.host), "bold")
    health = screen.paint(*status.health)
    yield (
        f"compute-agent {plain(written.agent_version)} on {host} (pid {written.pid}): "
        f"{health}; {status.last_period}"
    )
    yield from _service_lines(written, screen)
    # As /readyz does: each failed one, then the names of those that passed.
    failed = [
        screen.paint(f"{name}: see below" if name in CHECKS else plain(f"{name}: {text}"), "red")
        for name, text in written.checks.items()
        if text
    ]
    passed = [name for name, text in written.checks.items() if not text and not status.out_of_date]
    well = [screen.paint(f"{', '.join(passed)}: ok", "green")] if passed else []
    if failed or well:
        yield f"  {'; '.join([*failed, *well])}"
    yield from _condition_lines(written.service.conditions, status.now, screen)
    for node in written.nodes:
        yield from _node_lines(node, status, screen, sources=sources)


def _node_lines(
    node: schema.NodeStatus, status: ObservedStatus, screen: Screen, *, sources: bool
) -> Iterator[str]:
    state = screen.paint(*_node_words(node, status))
    changes = plain(node.changes) or ("nothing to change" if node.ok else "nothing was changed")
    yield f"  {plain(node.node)}: {state}; {changes}, in {node.seconds:.1f} s"
    yield from _condition_lines(node.conditions, status.now, screen)
    if sources and not node.took:
        yield "    sources: no driver of this node measures how long its sources take"
    elif sources:
        for name, seconds in sorted(node.took.items(), key=lambda item: -item[1]):
            yield f"    {name}: {seconds * 1000:.1f} ms"


def _condition_lines(conditions: Iterable[Condition], now: float, screen: Screen) -> Iterator[str]:
    """Yield conditions, and each next step once."""
    shown = set[str]()
    for condition in conditions:
        step, text = plain(condition.next_step), plain(condition.aged(now))
        yield f"    {screen.paint(text, SEVERITY_STYLES[condition.severity])}"
        if step not in shown:
            yield f"      {step}"
        shown.add(step)


def _service_lines(written: schema.AgentStatus, screen: Screen) -> Iterator[str]:
    """Yield whether the host takes new guests, and the endpoint of Placement."""
    service = written.service
    yield screen.painted(("  service: ", None), *_service_words(service))
    if service.disabled and service.reason == REASON_FOUND:
        yield f"    to enable it: computectl service enable {plain(written.host)}"
    if service.placement:
        yield f"  Placement: {plain(service.placement)}"


def _node_words(node: schema.NodeStatus, status: ObservedStatus) -> StyledText:
    """Return whether a node is reported and healthy, or how long ago it was fully reported."""
    if node.ok and status.out_of_date is not None:
        last = status.written.updated if node.last_ok is None else node.last_ok
        return f"was well {ago(max(0.0, status.now - last))} ago", "yellow"
    if node.ok and (ill := len(texts_of(node.conditions, Severity.DEGRADED))):
        return f"reported, degraded ({counted(ill, 'part')})", "yellow"
    if node.ok:
        return "well", "green"
    if node.last_ok is not None:
        return f"fully reported {ago(status.now - node.last_ok)} ago", "red"
    since = status.written.since
    start = "" if since is None else f", {ago(status.now - since)} ago"
    return f"not fully reported since compute-agent started{start}", "red"


def _service_words(service: schema.ServiceFacts) -> list[StyledText]:
    """Return whether the host is enabled, why not, and the state of RPC."""
    if service.attached:
        return [
            ("attach mode: the owner of the root provider enables and disables this host", None)
        ]
    statuses: Mapping[bool | None, StyledText] = {
        True: ("disabled", "yellow"),
        False: ("enabled", "green"),
        None: ("status not known yet", None),
    }
    because = f" ({plain(service.reason)})" if service.reason else ""
    rpc = f"{because}; calls over RPC: {plain(service.rpc)}"
    return [statuses[service.disabled], (rpc, None)]
