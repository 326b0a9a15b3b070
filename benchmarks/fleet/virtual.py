"""A fleet at an overloaded Placement in virtual time: the hosts and agents of ``tests/world``.

Placement is one queue that carries out ``rate`` requests a second in the order of their arrival,
whether or not the host still waits for the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import accumulate
from math import ceil, inf
from typing import Any

from agent.placement import TIMEOUT
from reportclient.errors import PlacementError, Unreachable
from reportclient.schedule import AUDIT_EVERY, PERIOD, VERIFY_EVERY, doubled
from tests.world.hypervisor import PARTS, Part
from tests.world.machine import Machine
from tests.world.scheduler import Promise, Scheduler
from tests.world.setup import Setup
from tests.world.world import many_histories, world

QUIET = 600.0
"""Seconds before the change."""
LONGEST = 900.0
"""Seconds after which a run ends."""
BIN = 10
"""Seconds."""
PROVIDERS = 1 + len(PARTS)
"""Number of providers of a host."""
TIMES = 5
"""How many times more is sent in a period than Placement carries out in that time."""


@dataclass
class Queue:
    """Placement's; ``room`` requests can wait in it, further ones are answered with 503."""

    scheduler: Scheduler
    rate: float = inf
    room: float = inf
    sent: list[float] = field(default_factory=list)
    """When each request was sent; ``done``: when each was carried out."""
    done: list[float] = field(default_factory=list)
    refused: int = 0
    given_up: int = 0
    _free_at: float = 0.0

    def carry_out(self, work: Callable[[], Any], patience: float) -> Any:
        """Return what ``work`` returns once the request was carried out, or raise its error.

        :raises Unreachable: the queue is full, or there is no answer after ``patience`` seconds.
        """
        now = self.scheduler.now
        self.sent.append(now)
        if self._free_at > now and (self._free_at - now) * self.rate >= self.room:
            self.refused += 1
            raise Unreachable("503", unsent=True)
        self._free_at = max(now, self._free_at) + 1 / self.rate

        answer = Promise(self.scheduler)

        def carried_out() -> None:
            self.done.append(self.scheduler.now)
            try:
                answer.set_result(work())
            except PlacementError as err:
                answer.set_exception(err)

        self.scheduler.call(carried_out, self._free_at - now)
        try:
            return answer.result(patience)
        except TimeoutError:
            self.given_up += 1
            raise Unreachable("no answer") from None


@dataclass
class Host:
    """The requests of one host, which wait in the queue."""

    machine: Machine
    queue: Queue
    timeout: float
    """Seconds that it waits for an answer at first."""
    right_at: float = 0.0
    """When the last change was in Placement."""
    left: set[str] = field(default_factory=set)
    """Paths of the writes that are not carried out yet."""
    _in_vain: int = 0

    def __post_init__(self) -> None:
        self._send, self.machine.link.send = self.machine.link.send, self.send
        self.machine.hypervisor.parts |= dict.fromkeys(PARTS, Part(8))

    def send(self, method: str, path: str, **body: Any) -> Any:
        """Send a request; the host waits for the answer as ``PlacementAPI`` does."""
        patience = doubled(self.timeout, self._in_vain, 2 * self.timeout)
        try:
            answer = self.queue.carry_out(lambda: self._carried_out(method, path, body), patience)
        except Unreachable as err:
            self._in_vain = 0 if err.unsent else self._in_vain + 1
            raise
        self._in_vain = 0
        return answer

    def _carried_out(self, method: str, path: str, body: dict[str, Any]) -> Any:
        answer = self._send(method, path, **body)
        if method == "PUT" and path in self.left:
            self.left.remove(path)
            self.right_at = self.queue.scheduler.now
        return answer

    def change(self, total: int) -> None:
        """Have the driver report another total of each provider from the next period on."""
        node = self.machine.hypervisor
        node.parts = {name: replace(part, total=total) for name, part in node.parts.items()}
        self.left = {f"/resource_providers/{node.uuid(name)}/inventories" for name in node.parts}


@dataclass(frozen=True)
class Overload:
    """What a change on all hosts cost until Placement had all of it; lists by ``BIN`` seconds."""

    hosts: int
    rate: float
    writes: int
    """Number of writes that the change needs."""
    sent: list[int]
    done: list[int]
    right: list[int]
    """Number of hosts that became right."""
    refused: int
    given_up: int
    seconds: float | None
    """``None`` if it did not end."""

    @property
    def bare(self) -> float:
        """Seconds that the bare writes take."""
        return self.writes / self.rate

    @property
    def worst_minute(self) -> float:
        """The least part of what Placement can do that it did in a minute.

        Until a quarter of the hosts is left: these have their rests to end.
        """
        at = range(sum(done <= 0.75 * self.hosts for done in accumulate(self.right)) - 5)
        minutes = (sum(self.done[each : each + 6]) for each in at)
        return min(minutes, default=0) / (6 * BIN * self.rate)


def overload(hosts: int, room: float = inf, timeout: float = TIMEOUT, seed: int = 25) -> Overload:
    """Have all drivers report something else at once; run until Placement has all of it.

    Nothing announces the change: no start, and no reload.  ``room`` is meant for 10,000 hosts, and
    is as much smaller as the fleet is.

    :raises Violation: Placement does not have all data of a host at the end.
    """
    setup = Setup(
        hosts, verify_every=VERIFY_EVERY, audit_every=AUDIT_EVERY, first_within=float(PERIOD)
    )
    with many_histories(), world(seed, setup) as simulation:
        scheduler = simulation.scheduler
        queue, rate = Queue(scheduler), hosts * PROVIDERS / PERIOD / TIMES
        fleet = [Host(machine, queue, timeout) for machine in simulation.machines]
        for host in fleet:
            host.machine.start()
        scheduler.run(QUIET)
        queue.rate, queue.room = rate, room * hosts / 10_000
        queue.sent, queue.done = [], []
        for host in fleet:
            host.change(9)
        while scheduler.now < QUIET + LONGEST and any(host.left for host in fleet):
            scheduler.run(scheduler.now + BIN)
        right = [host.right_at - QUIET for host in fleet if not host.left]
        ended = len(right) == hosts
        end = max(right) if ended else LONGEST
        result = Overload(
            hosts=hosts,
            rate=rate,
            writes=hosts * PROVIDERS,
            sent=_bins([at - QUIET for at in queue.sent], end),
            done=_bins([at - QUIET for at in queue.done], end),
            right=_bins(right, end),
            refused=queue.refused,
            given_up=queue.given_up,
            seconds=round(end, 1) if ended else None,
        )
        if ended:
            scheduler.run(scheduler.now + 3 * PERIOD)
            simulation.invariants.check_equal()
        return result


def _bins(times: list[float], end: float) -> list[int]:
    """Return how many of the times, in seconds, are in each ``BIN`` seconds."""
    counts = [0] * ceil(end / BIN)
    for at in times:
        if at < end:
            counts[int(at / BIN)] += 1
    return counts
