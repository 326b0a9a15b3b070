"""The hypervisor's connection, lost and back, and when the host is enabled again.

A loss disables at once.  A return has to last before it enables, and longer the more
often the connection was lost of late: a host that flaps stays disabled.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from agent.loop import Loop
from agent.registry.checks import in_a_line
from agent.switching.host_status import HostStatus
from agent.switching.notices import Notice, PeriodDone
from reportclient.plain_text import error_text
from reportclient.schedule import doubled

STEADY = 5.0
"""Seconds; doubled with each further loss within ``MEMORY``, up to ``LONGEST``."""
LONGEST = 300.0
MEMORY = 600.0


@dataclass(slots=True)
class Hypervisor:
    """Hears from drivers, in any thread; decides in the loop's."""

    status: HostStatus
    loop: Loop
    clock: Callable[[], float] = time.monotonic
    steady: float = STEADY
    lost: dict[str, str] = field(default_factory=dict)
    """Why, by driver."""
    _losses: list[float] = field(default_factory=list)
    _turn: int = 0
    _good_since: float | None = None

    def listener(self, driver: str) -> Callable[[object], None]:
        """Return a driver's callback: it takes the reason of a loss, or ``None`` when connected."""
        return lambda why: self._post(driver, None if why is None else _said(why))

    def hear(self, notice: Notice) -> None:
        """After each period: a record may have said meanwhile that a program disabled us."""
        if not isinstance(notice, PeriodDone):
            return
        if self._good_since is not None and self.clock() >= self._good_since:
            self.status.hypervisor_back()

    def _post(self, driver: str, why: str | None) -> None:
        self.loop.post(lambda: self._hear(driver, why))

    def _hear(self, driver: str, why: str | None) -> None:
        if why is not None:
            self._is_lost(driver, why)
        elif self.lost.pop(driver, None) is not None or self._good_since is None:
            self._is_back()

    def _is_lost(self, driver: str, why: str) -> None:
        known = driver in self.lost
        self.lost[driver] = why
        self._good_since = None
        self._turn += 1
        if not known:
            self._losses.append(self.clock())
        self.status.hypervisor_lost(why)

    def _is_back(self) -> None:
        if self.lost:
            return
        wait = self._wait()
        self._good_since = self.clock() + wait
        turn = self._turn
        self.loop.later(wait, lambda: self._enable(turn))

    def _enable(self, turn: int) -> None:
        if turn == self._turn:
            self.status.hypervisor_back()

    def _wait(self) -> float:
        """Seconds for which it has to stay."""
        since = self.clock() - MEMORY
        self._losses = [at for at in self._losses if at > since]
        return doubled(self.steady, max(0, len(self._losses) - 1), LONGEST)


def _said(why: object) -> str:
    """Often it is the error itself, or nothing."""
    return in_a_line(error_text(why) if isinstance(why, BaseException) else str(why)) or "lost"
