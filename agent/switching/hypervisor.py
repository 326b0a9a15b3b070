"""The connection to the hypervisor: its loss disables the host, its return enables it.

A loss disables at once.  A return has to last before it enables the host, and longer the more
often the connection was lost lately: a host that flaps stays disabled.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import partial

from agent.loop import Loop
from agent.registry.checks import AUTO, LONGEST, one_line
from agent.switching.host_status import HostStatus
from agent.switching.machine import Event
from drivers.abilities import Notify, Watched
from drivers.loaded import LoadedDriver
from reportclient.plain_text import error_text
from reportclient.schedule import doubled

LOG = logging.getLogger("compute_agent.drivers")

STEADY = 5.0
"""Seconds that a return has to last; doubled with each further loss within ``MEMORY`` seconds,
up to ``LONGEST_STEADY``."""
LONGEST_STEADY = 300.0
MEMORY = 600.0


@dataclass(slots=True)
class Hypervisor:
    """Takes the reports of drivers in any thread, and handles them in the loop's."""

    status: HostStatus
    loop: Loop
    steady: float = STEADY
    lost_nodes: dict[str, str] = field(default_factory=dict)
    """Why single nodes are lost, by name: the next period disables them, or enables them again."""
    lost: dict[str, str] = field(default_factory=dict)
    """Why the connection is lost, by driver."""
    _losses: list[float] = field(default_factory=list)
    _enable_at: float | None = None

    def watch(self, drivers: Iterable[LoadedDriver]) -> None:
        """Have drivers report losses and returns; one that is not open yet does so once it is."""
        for loaded in drivers:
            if loaded.can(Watched):
                begin = partial(_watch, loaded, self.listener(loaded.name))
                if loaded.opening.failed is None:
                    begin()
                else:
                    loaded.opening.then = begin

    def listener(self, driver: str) -> Notify:
        """Return a driver's callback: it takes the reason of a loss, or ``None`` when connected."""

        def report(why: object, node: str | None = None, /) -> None:
            if why is not None:
                text = error_text(why) if isinstance(why, BaseException) else str(why)
                why = one_line(text) or "lost"
            handle = partial(self._handle, driver)
            if node is not None:
                handle = partial(self._handle_node, str(node))
            self.loop.post(partial(handle, why))

        return report

    def _handle_node(self, node: str, why: str | None) -> None:
        before = self.lost_nodes.pop(node, None)
        if why is not None:
            self.lost_nodes[node] = why
        if why != before:
            self.loop.refresh()

    def _handle(self, driver: str, why: str | None) -> None:
        if why is not None:
            if driver not in self.lost:
                self._losses.append(self.loop.clock())
            self.lost[driver] = why
            self._enable_at = None
            self.status.handle(Event.LOST, one_line(f"{AUTO}{why}")[:LONGEST])
            return
        was_lost = self.lost.pop(driver, None) is not None
        if self.lost or (self._enable_at is not None and not was_lost):
            return
        now = self.loop.clock()
        self._losses = [at for at in self._losses if at > now - MEMORY]
        wait = doubled(self.steady, max(0, len(self._losses) - 1), LONGEST_STEADY)
        self._enable_at = now + wait
        self.loop.later(wait, self.enable_if_due)

    def enable_if_due(self) -> None:
        """Enable the host if the return has lasted, and nothing but the loss disabled it.

        Called after each period, too: a record may have disabled it for a program meanwhile.
        """
        if self._enable_at is not None and self.loop.clock() >= self._enable_at:
            self.status.handle(Event.BACK)


def _watch(loaded: LoadedDriver, report: Notify) -> None:
    """Start the driver's ``watch``; a driver that fails in it is used all the same."""
    try:
        loaded.call(Watched.watch, report)
    except (Exception, SystemExit) as err:
        text = "Driver %s can't watch its hypervisor, whose loss will not disable this host: %s"
        LOG.warning(text, loaded.name, error_text(err))
        LOG.debug("Driver %s", loaded.name, exc_info=err)
