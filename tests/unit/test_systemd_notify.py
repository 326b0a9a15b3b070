"""The notify protocol, against a socket as systemd opens one."""

import os
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.reporting.systemd import STATUS_LENGTH, Systemd


@dataclass
class Manager:
    """Stands at systemd's end of the socket."""

    sock: socket.socket
    address: str

    def heard(self) -> list[str]:
        """The datagrams that came."""
        found = []
        while True:
            try:
                found.append(self.sock.recv(65536).decode())
            except BlockingIOError:
                return found


@pytest.fixture(params=["path", "abstract"])
def manager(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Manager]:
    name = (
        str(tmp_path / "notify") if request.param == "path" else f"@{tmp_path.name}-{os.getpid()}"
    )
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sock:
        sock.bind(name.replace("@", "\0", 1))
        sock.setblocking(False)
        yield Manager(sock, name)


@pytest.mark.parametrize(
    ("act", "expected"),
    [
        (lambda one: one.ready("1 node reported"), r"READY=1\nSTATUS=1 node reported"),
        (Systemd.stopping, r"STOPPING=1\nSTATUS=stopping"),
        (Systemd.reloading, r"RELOADING=1\nMONOTONIC_USEC=\d+"),
        (Systemd.reloaded, "READY=1"),
        (Systemd.feed, "WATCHDOG=1"),
        (
            lambda one: one.status("degraded: it says\nSTOPPING=1\n\n  and more"),
            "STATUS=degraded: it says STOPPING=1 and more",
        ),
        (lambda one: one.status("\udcff" + "x" * 100_000), rf"STATUS=\?x{{{STATUS_LENGTH - 1}}}"),
    ],
    ids="ready stopping reloading reloaded watchdog lines long".split(),
)
def test_each_notification_is_one_message(manager: Manager, act, expected: str) -> None:
    act(Systemd(manager.address, watchdog=3.0))
    (heard,) = manager.heard()
    assert re.fullmatch(expected, heard)


def test_a_watchdog_that_is_not_there_is_not_fed(manager: Manager) -> None:
    Systemd(manager.address, watchdog=None).feed()
    assert manager.heard() == []


def test_without_systemd_or_with_one_that_is_gone_nothing_is_sent(tmp_path: Path) -> None:
    assert Systemd.from_environment({}) == Systemd(None, None)
    for address in (None, str(tmp_path / "nobody")):
        Systemd(address).ready("nobody hears it")


@pytest.mark.parametrize(
    ("environ", "watchdog"),
    [
        ({"WATCHDOG_USEC": "3000000"}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": str(os.getpid())}, 3.0),
        ({"WATCHDOG_USEC": "3000000", "WATCHDOG_PID": "1"}, None),
        ({"WATCHDOG_USEC": "soon"}, None),
        ({"WATCHDOG_USEC": "0"}, None),
        ({}, None),
    ],
)
def test_the_watchdog_of_another_process_is_not_ours(
    environ: dict[str, str], watchdog: float | None
) -> None:
    assert Systemd.from_environment(environ).watchdog == watchdog
