"""The agent's own numbers, where [monitoring] has them served or written."""

import http.client
import re
import socket
from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from agent.metrics.opts import MonitoringSettings

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
