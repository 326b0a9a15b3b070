"""``computectl status``: how the agent on this host is, by its own words."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agent.cli.shared.command_session import Session
from agent.cli.shared.errors import NOT_WELL, Trouble
from agent.cli.shared.listing import DrawnOrListed, Table
from agent.cli.shared.screen import Look
from agent.told.status_file import FILE_NAME, NO_RPC, SERVING, VERSION, started_at
from reportclient.plain_text import plain

COLUMNS = ("node", "ok", "last_ok", "calls", "changes", "complaints", "draining", "reshape_pending")
SERVICE = ("disabled", "reason", "registry", "rpc")
"""The same in each row: what holds for the host as a whole."""
TOOK = "took"
"""Seconds by source; a file that an older agent wrote has none."""
LATE_AFTER = 3
"""Periods without a word after which an agent counts as stuck."""


@dataclass(frozen=True, slots=True)
class Status:
    """What the agent wrote last; ``now`` and ``alive`` are seen from here."""

    written: dict[str, Any]
    now: float
    alive: bool
    sources: bool = False
    """Whether it is asked how long the sources of the drivers took."""

    @property
    def trouble(self) -> str | None:
        """Why the words can't be trusted to be of now."""
        if not self.alive:
            return f"it is not running (it was, as pid {self.written['pid']})"
        interval = self.written["interval"]
        if interval and self.age > LATE_AFTER * interval:
            return f"it is stuck: no period was done for {_ago(self.age)}; see its log"
        return None

    @property
    def age(self) -> float:
        """Seconds since the last period."""
        return max(0.0, self.now - float(self.written["updated"]))

    @property
    def service(self) -> dict[str, Any]:
        """Whether the host takes guests, and who can say otherwise; empty if not written."""
        found = self.written.get("service")
        return found if isinstance(found, dict) else {}

    @property
    def cut_off(self) -> bool:
        """Whether calls do not arrive though there is a message bus."""
        return self.service.get("rpc") not in (None, SERVING, NO_RPC)

    @property
    def well(self) -> bool:
        """Whether all is well, and was so just now."""
        reported = self.trouble is None and all(node["ok"] for node in self.written["nodes"])
        return reported and not self.cut_off and not self.service.get("registry")


class ShowStatus(DrawnOrListed[Status]):
    """Show how compute-agent on this host is: whether it takes new guests, and each node.

    With what is wrong and what is pending. Reads a file that the agent writes after each
    period; asks neither Placement nor the drivers. Exits with 1 if the agent is not running,
    is stuck, or is not well.
    """

    drawn = "words"
    examples = """\
  computectl status             for people
  computectl status -f json     for a health check
  computectl status --sources   with how long each question to the host took
"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """With --sources."""
        parser = super().get_parser(prog_name)
        parser.add_argument(
            "--sources",
            action="store_true",
            help="show how long each source of the drivers took when it was asked last",
        )
        return parser

    def ask(self, session: Session, options: argparse.Namespace) -> Status:
        """The file, and whether its writer lives."""
        written = _read(session.settings.state_path / FILE_NAME)
        alive = _lives(written["pid"], written["started"])
        return Status(written, time.time(), alive, options.sources)

    def draw(self, answer: Status, look: Look, options: argparse.Namespace) -> str:  # noqa: ARG002
        """A line for the agent, one for each node, and what is wrong below it."""
        return "\n".join(_lines(answer, look))

    def table(self, answer: Status) -> Table:
        """A row for each node; ``registry`` says why that does not answer."""
        service = [answer.service.get(name) for name in SERVICE]
        own = (*COLUMNS, TOOK) if answer.sources else COLUMNS
        nodes = [[node.get(name) for name in own] for node in answer.written["nodes"]]
        return (*own, *SERVICE), [[*node, *service] for node in nodes]

    def verdict(self, answer: Status, options: argparse.Namespace) -> int:  # noqa: ARG002
        """For health checks."""
        if answer.trouble is not None:
            self.complain(f"compute-agent on {answer.written['host']}: {answer.trouble}")
        return 0 if answer.well else NOT_WELL


def _lines(status: Status, look: Look) -> Iterator[str]:
    written = status.written
    health = "well" if status.well else look.paint("not well", "red")
    yield (
        f"compute-agent on {look.paint(plain(written['host']), 'bold')} (pid {written['pid']}): "
        f"{health}; last period {_ago(status.age)} ago"
    )
    if status.service:
        yield from _service(status.service, look)
    if status.cut_off:
        yield "    calls to this host do not arrive; it follows its record, if the registry answers"
    for node in written["nodes"]:
        last = node["last_ok"]
        seen = "never well" if last is None else f"well {_ago(status.now - last)} ago"
        state = "well" if node["ok"] else look.paint(seen, "yellow")
        changes = plain(node["changes"]) or "nothing to change"
        yield f"  {plain(node['node'])}: {state}; {changes}"
        for complaint in (*node["complaints"], *(node.get("draining") or ())):
            yield f"    {plain(complaint)}"
        if status.sources:
            yield from _times(node.get(TOOK) or {})
        if node["reshape_pending"]:
            yield "    see it: computectl reshape --plan; do it: computectl reshape"


def _service(service: dict[str, Any], look: Look) -> Iterator[str]:
    if service.get("attached"):
        yield "  service: that of the root's owner, who disables and enables it"
        return
    words = {True: look.paint("disabled", "yellow"), False: "enabled"}
    status = words.get(service["disabled"]) if "disabled" in service else None
    status = status or "not known yet whether it is enabled"
    reason = service.get("reason")
    because = f" ({plain(reason)})" if reason else ""
    yield f"  service: {status}{because}; calls over RPC: {service.get('rpc') or 'none'}"
    if service.get("registry"):
        yield f"    the last known status holds, the registry does not serve: {service['registry']}"


def _times(took: dict[str, float]) -> Iterator[str]:
    """The slowest first."""
    for name, seconds in sorted(took.items(), key=lambda one: -one[1]):
        yield f"    {name}: {seconds * 1000:.1f} ms"


def _read(path: Path) -> dict[str, Any]:
    try:
        written = json.loads(path.read_text(encoding="utf-8"))
        version = written["version"]
        if version == VERSION:
            _check(written)
    except FileNotFoundError:
        raise Trouble(f"no {path}", "has compute-agent run here?", NOT_WELL) from None
    except OSError as err:
        raise Trouble(f"{path}: {err.strerror}", "run as the user of compute-agent") from err
    except (ValueError, TypeError, KeyError, AttributeError):
        raise Trouble(f"{path} can't be read", "restart compute-agent", NOT_WELL) from None
    if version != VERSION:
        raise Trouble(f"{path} has version {version}, not {VERSION}", "restart compute-agent")
    return dict(written)


def _check(written: dict[str, Any]) -> None:
    """:raises ValueError: what the commands here read is not in it."""
    numbers = isinstance(written["pid"], int) and isinstance(written["updated"], int | float)
    timed = isinstance(written["interval"], int | float | None)
    nodes = isinstance(written["nodes"], list) and all(
        set(COLUMNS) <= node.keys() and isinstance(node.get(TOOK, {}), dict)
        for node in written["nodes"]
    )
    if not (numbers and timed and nodes and {"host", "started"} <= written.keys()):
        raise ValueError("not a status")


def _lives(pid: int, started: int | None) -> bool:
    """Whether the process runs, and is the same one: a pid is given away again."""
    if None not in (now := started_at(pid), started) and now != started:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _ago(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"
