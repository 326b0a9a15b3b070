"""Storage: libvirt's pools, asked over a connection of their own.

A pool whose server hangs blocks whoever asks for it, for as long as the server likes.
That shall cost the size of a disk, and neither the rest of a report nor the verdict
that libvirt itself is lost.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from drivers.errors import DriverNotReady
from drivers.libvirt.lane import Blocked, Lane, Overdue
from drivers.libvirt.session import Deadlines, Refused, Session

WHAT = "storage pools"


class Storage:
    """``ready`` raises ``DriverNotReady`` while libvirt can't be reached at all."""

    def __init__(
        self,
        uri: str,
        binding: Any,
        deadlines: Deadlines,
        ready: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._uri = uri
        self._binding = binding
        self._deadlines = deadlines
        self._ready = ready
        self._lane = Lane("libvirt-pools", lambda: Session(binding, uri, deadlines), clock)

    def pool_documents(self) -> tuple[str, ...]:
        """The documents of all active pools; none from a libvirt without storage.

        :raises DriverNotReady: no answer, and why.
        """
        self._ready()
        try:
            self._lane.call("a connection", Session.ensure_open, self._deadlines.connect)
            return self._lane.call(WHAT, self._asked, self._deadlines.call)
        except (Overdue, Blocked) as err:
            words = f"libvirt at {self._uri}, asked for storage pools: {err}"
            raise DriverNotReady(words) from None
        except Refused as err:
            if err.unsupported:
                return ()
            raise

    def close(self) -> None:
        """Close the connection, in bounded time."""
        self._lane.close(self._deadlines.connect)

    def _asked(self, session: Session) -> tuple[str, ...]:
        return session.ask(WHAT, self._documents)

    def _documents(self, connection: Any) -> tuple[str, ...]:
        """On the worker thread: pools hold the connection too."""
        active = self._binding.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE
        documents = []
        for pool in connection.listAllStoragePools(active):
            with contextlib.suppress(self._binding.libvirtError):  # it has gone meanwhile
                documents.append(str(pool.XMLDesc(0)))
        return tuple(documents)
