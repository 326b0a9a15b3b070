"""The notify protocol, against a socket as systemd opens one."""

from __future__ import annotations

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


def test_ready_and_status_come_in_one_message(manager: Manager) -> None:
    Systemd(manager.address).ready("1 node reported")
    assert manager.heard() == ["READY=1\nSTATUS=1 node reported"]


def test_stopping_says_so(manager: Manager) -> None:
    Systemd(manager.address).stopping()
    assert manager.heard() == ["STOPPING=1\nSTATUS=stopping"]


def test_a_reload_says_when_it_began_and_that_it_is_over(manager: Manager) -> None:
    Systemd(manager.address).reloading()
    Systemd(manager.address).reloaded()
    began, over = manager.heard()
    assert re.fullmatch(r"RELOADING=1\nMONOTONIC_USEC=\d+", began)
    assert over == "READY=1"


def test_the_watchdog_is_fed_only_where_there_is_one(manager: Manager) -> None:
    Systemd(manager.address, watchdog=None).feed()
    assert manager.heard() == []
    Systemd(manager.address, watchdog=3.0).feed()
    assert manager.heard() == ["WATCHDOG=1"]


def test_a_status_of_several_lines_gives_no_orders(manager: Manager) -> None:
    Systemd(manager.address).status("degraded: it says\nSTOPPING=1\n\n  and more")
    assert manager.heard() == ["STATUS=degraded: it says STOPPING=1 and more"]


def test_a_status_is_short_and_whatever_a_driver_put_into_it(manager: Manager) -> None:
    Systemd(manager.address).status("\udcff" + "x" * 100_000)
    (heard,) = manager.heard()
    assert heard.startswith("STATUS=?x")
    assert len(heard) == len("STATUS=") + STATUS_LENGTH


def test_without_systemd_nothing_is_sent() -> None:
    systemd = Systemd.from_environment({})
    assert systemd == Systemd(None, None)
    systemd.ready("nobody hears it")


def test_a_systemd_that_is_gone_stops_nothing(tmp_path: Path) -> None:
    Systemd(str(tmp_path / "nobody")).ready("nobody hears it")


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
