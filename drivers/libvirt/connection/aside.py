"""Aside: questions that may hang, asked over a connection of their own.

A pool whose server hangs, or a device whose firmware does, blocks whoever asks for it for as
long as it likes.  That shall cost what was asked for, and neither the rest of a report nor
the verdict that libvirt itself is lost.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from drivers.errors import DriverNotReady
from drivers.libvirt.connection.lane import Blocked, Lane, Overdue
from drivers.libvirt.connection.session import Deadlines, Session

T = TypeVar("T")


class Aside:
    """``ready`` raises ``DriverNotReady`` while libvirt can't be reached at all."""

    def __init__(
        self,
        lane: Lane[Session],
        uri: str,
        deadlines: Deadlines,
        ready: Callable[[], None],
    ) -> None:
        self._lane = lane
        self._uri = uri
        self._deadlines = deadlines
        self._ready = ready

    def ask(self, what: str, question: Callable[[Any], T]) -> T:
        """``question(connection)``, on the worker thread.

        :raises Refused: libvirt answered with an error.
        :raises DriverNotReady: no answer, and why.
        """
        self._ready()
        try:
            self._lane.call("a connection", Session.ensure_open, self._deadlines.connect)
            return self._lane.call(
                what, lambda session: session.ask(what, question), self._deadlines.call
            )
        except (Overdue, Blocked) as err:
            raise DriverNotReady(f"libvirt at {self._uri}, asked for {what}: {err}") from None

    def close(self) -> None:
        """Close the connection, in bounded time."""
        self._lane.close(self._deadlines.connect)
