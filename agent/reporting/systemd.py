"""systemd's notify protocol: a datagram to the socket that it named."""

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass

STATUS_LENGTH = 500
"""Characters; what is longer is read in the log."""


@dataclass(frozen=True, slots=True)
class Systemd:
    """Tells systemd how we are; says nothing where there is none."""

    address: str | None = None
    watchdog: float | None = None
    """Seconds in which :meth:`feed` has to be called, ``None`` for no watchdog."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> "Systemd":
        """From NOTIFY_SOCKET and WATCHDOG_USEC, if they are meant for this process."""
        for_us = environ.get("WATCHDOG_PID", str(os.getpid())) == str(os.getpid())
        usec = environ.get("WATCHDOG_USEC", "") if for_us else ""
        return cls(environ.get("NOTIFY_SOCKET"), _seconds(usec))

    def ready(self, status: str) -> None:
        """The service is up."""
        self._send(f"READY=1\nSTATUS={_one_line(status)}")

    def status(self, status: str) -> None:
        """One line for ``systemctl status``."""
        self._send(f"STATUS={_one_line(status)}")

    def feed(self) -> None:
        """Still alive and making progress."""
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
        """The service is going down."""
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
                return  # systemd is not there any more; the service goes on without


def _seconds(usec: str) -> float | None:
    return int(usec) / 1e6 or None if usec.isdigit() else None


def _one_line(status: str) -> str:
    """A second line, of some driver's error, would be an order of its own."""
    return " ".join(status.split())[:STATUS_LENGTH]
