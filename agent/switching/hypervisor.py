"""The connection to the hypervisor: its loss disables the host, its return enables it.

A loss disables at once.  A return has to last before it enables the host, and longer the more
often the connection was lost lately: a host that flaps stays disabled.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agent.loop import Loop
from agent.registry.checks import one_line
from agent.switching.host_status import HostStatus
from agent.switching.notices import Notice, PeriodDone
from reportclient.plain_text import error_text
from reportclient.schedule import doubled

STEADY = 5.0
"""Seconds that a return has to last; doubled with each further loss within ``MEMORY`` seconds,
up to ``LONGEST``."""
LONGEST = 300.0
MEMORY = 600.0


@dataclass(slots=True)
class Hypervisor:
    """Takes the reports of drivers in any thread, and handles them in the loop's."""

    status: HostStatus
    loop: Loop
    clock: Callable[[], float] = time.monotonic
    steady: float = STEADY
    lost: dict[str, str] = field(default_factory=dict)
    """Why the connection is lost, by driver."""
    _losses: list[float] = field(default_factory=list)
    _turn: int = 0
    _enable_at: float | None = None

    def listener(self, driver: str) -> Callable[[object], None]:
        """Return a driver's callback: it takes the reason of a loss, or ``None`` when connected."""
        return lambda why: self._post(driver, None if why is None else _reason(why))

    def on_notice(self, notice: Notice) -> None:
        """After a period: enable a host that a record has disabled for a program meanwhile."""
        if not isinstance(notice, PeriodDone):
            return
        if self._enable_at is not None and self.clock() >= self._enable_at:
            self.status.hypervisor_back()

    def _post(self, driver: str, why: str | None) -> None:
        self.loop.post(lambda: self._handle(driver, why))

    def _handle(self, driver: str, why: str | None) -> None:
        if why is not None:
            self._is_lost(driver, why)
        elif self.lost.pop(driver, None) is not None or self._enable_at is None:
            self._is_back()

    def _is_lost(self, driver: str, why: str) -> None:
        known = driver in self.lost
        self.lost[driver] = why
        self._enable_at = None
        self._turn += 1
        if not known:
            self._losses.append(self.clock())
        self.status.hypervisor_lost(why)

    def _is_back(self) -> None:
        if self.lost:
            return
        wait = self._wait()
        self._enable_at = self.clock() + wait
        turn = self._turn
        self.loop.later(wait, lambda: self._enable(turn))

    def _enable(self, turn: int) -> None:
        if turn == self._turn:
            self.status.hypervisor_back()

    def _wait(self) -> float:
        """Return the seconds that the connection has to last."""
        since = self.clock() - MEMORY
        self._losses = [at for at in self._losses if at > since]
        return doubled(self.steady, max(0, len(self._losses) - 1), LONGEST)


def _reason(why: object) -> str:
    """Return the text of a driver's reason: an error, a text, or nothing."""
    return one_line(error_text(why) if isinstance(why, BaseException) else str(why)) or "lost"
