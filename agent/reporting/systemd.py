"""systemd's notify protocol (sd_notify(3)): datagrams to NOTIFY_SOCKET."""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

STATUS_LENGTH = 500
"""Most characters of the status line."""


@dataclass(frozen=True, slots=True)
class Systemd:
    """Notifies systemd; does nothing if there is no ``address``."""

    address: str | None = None
    watchdog: float | None = None
    """Seconds in which :meth:`feed` has to be called, ``None`` for no watchdog."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> "Systemd":
        """Read NOTIFY_SOCKET, and WATCHDOG_USEC if WATCHDOG_PID is unset or this process."""
        for_us = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environ.get("WATCHDOG_USEC", "") if for_us else ""
        seconds = int(usec) / 1e6 if usec.isdigit() else 0
        return cls(environ.get("NOTIFY_SOCKET"), seconds or None)

    def ready(self, status: str) -> None:
        """Tell systemd that the service is up."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def status(self, status: str) -> None:
        """Set the line in ``systemctl status``."""
        self._send(f"STATUS={_one_line(status)}")

    def feed(self) -> None:
        """Tell the watchdog that the service makes progress."""
        if self.watchdog is not None:
            self._send("WATCHDOG=1")

    def reloading(self) -> None:
        """Tell systemd that a reload has begun, until :meth:`reloaded` (sd_notify(3))."""
        now = time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000
        self._send(f"RELOADING=1\nMONOTONIC_USEC={now}")

    def reloaded(self) -> None:
        """Tell systemd that the reload is over; the status line stays as it was."""
        self._send("READY=1")

    def stopping(self) -> None:
        """Tell systemd that the service stops."""
        self._send("STOPPING=1\nSTATUS=stopping")

    def _send(self, message: str) -> None:
        if not self.address:
            return
        # An address that begins with @ is in the abstract namespace.
        address = "\0" + self.address[1:] if self.address.startswith("@") else self.address
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as sock:
            try:
                sock.sendto(message.encode(errors="replace"), address)
            except OSError:
                return  # systemd does not listen: the service runs without it


def _one_line(status: str) -> str:
    """Join lines: a second line would be another assignment of the protocol."""
    return " ".join(status.split())[:STATUS_LENGTH]
