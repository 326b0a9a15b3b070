"""A fleet at an overloaded Placement in virtual time: the agents of ``tests.agents``.

Placement is one queue that carries out ``rate`` requests a second in the order of their arrival,
whether or not the host still waits for the answer.
"""

import random
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, inf
from typing import Any

from agent.placement import TIMEOUT
from benchmarks.fleet.virtual_time import Scheduler
from drivers.api import ProviderTree
from reportclient.errors import PlacementError, Unreachable
from reportclient.schedule import AUDIT_EVERY, PERIOD, VERIFY_EVERY, doubled
from tests.agents import NODE, ROOT, Agent, Small, child_uuid
from tests.stranger import FakePlacement

QUIET = 600.0
"""Seconds before the change."""
LONGEST = 900.0
"""Seconds after which a run ends."""
BIN = 10
"""Seconds."""
CHILDREN = tuple(f"{NODE}_cell{number}" for number in range(4))
PROVIDERS = 1 + len(CHILDREN)
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
        wait = self._free_at - now
        if wait <= patience:
            self.scheduler.sleep(wait)
            return self._carried_out(work)
        self.scheduler.call(lambda: self._carried_out_late(work), wait)
        self.scheduler.sleep(patience)
        self.given_up += 1
        raise Unreachable("no answer")

    def _carried_out(self, work: Callable[[], Any]) -> Any:
        self.done.append(self.scheduler.now)
        return work()

    def _carried_out_late(self, work: Callable[[], Any]) -> None:
        with suppress(PlacementError):  # nobody waits for the answer any more
            self._carried_out(work)


@dataclass
class Host:
    """A host with its agent and a Placement of its own, whose requests wait in the queue."""

    scheduler: Scheduler
    queue: Queue
    timeout: float
    """Seconds that the host waits for an answer at first."""
    total: int = 8
    """Total of the inventory that the driver reports of each provider."""
    right_at: float = 0.0
    """When the last change was in Placement."""
    left: set[str] = field(default_factory=set)
    """Paths of the writes that are not carried out yet."""
    _in_vain: int = 0

    def __post_init__(self) -> None:
        self.placement = FakePlacement()
        self.agent = Agent(
            self,
            Small(self._report),
            verify_every=VERIFY_EVERY,
            audit_every=AUDIT_EVERY,
            period=PERIOD,
            pause=self.scheduler.sleep,
        )

    def live(self) -> None:
        """Run periods for ever, the first one at a random time."""
        due = self.scheduler.now + random.uniform(0, PERIOD)
        while True:
            self.scheduler.sleep(due - self.scheduler.now)
            self.agent.nodes.period(self.scheduler.now)
            skipped = max(0, int((self.scheduler.now - due) // PERIOD))
            due += (skipped + 1) * PERIOD

    def change(self, total: int) -> None:
        """Have the driver report another total of each provider from the next period on."""
        self.total = total
        uuids = (ROOT, *map(child_uuid, CHILDREN))
        self.left = {f"/resource_providers/{uuid}/inventories" for uuid in uuids}

    def request(self, method: str, path: str, **named: Any) -> dict[str, Any]:
        """Send a request as ``PlacementAPI`` does, and wait as long for the answer."""
        patience = doubled(self.timeout, self._in_vain, 2 * self.timeout)
        try:
            answer: dict[str, Any] = self.queue.carry_out(
                lambda: self._carried_out(method, path, named), patience
            )
        except Unreachable as err:
            self._in_vain = 0 if err.unsent else self._in_vain + 1
            raise
        self._in_vain = 0
        return answer

    def is_right(self) -> bool:
        """Return whether Placement has what the driver reports."""
        inventories = map(self.placement.stranger.inventory, (ROOT, *map(child_uuid, CHILDREN)))
        return all(each["VCPU"]["total"] == self.total for each in inventories)

    def _report(self, tree: ProviderTree) -> None:
        for name in (NODE, *CHILDREN):
            if not tree.exists(name):
                tree.new_child(name, NODE)
            tree.update_inventory(name, {"VCPU": {"total": self.total}})

    def _carried_out(self, method: str, path: str, named: dict[str, Any]) -> dict[str, Any]:
        answer = self.placement.request(method, path, **named)
        if method == "PUT" and path in self.left:
            self.left.remove(path)
            self.right_at = self.scheduler.now
        return answer


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
    """
    random.seed(seed)
    with closing(Scheduler()) as scheduler:
        queue = Queue(scheduler)
        fleet = [Host(scheduler, queue, timeout) for _ in range(hosts)]
        for host in fleet:
            scheduler.spawn(host.live)
        scheduler.run(QUIET)
        queue.rate, queue.room = hosts * PROVIDERS / PERIOD / TIMES, room * hosts / 10_000
        queue.sent, queue.done = [], []
        for host in fleet:
            host.change(9)
        while scheduler.now < QUIET + LONGEST and any(host.left for host in fleet):
            scheduler.run(scheduler.now + BIN)
        result = _result(queue, fleet)
        if result.seconds is not None:
            scheduler.run(scheduler.now + 3 * PERIOD)
            assert all(host.is_right() for host in fleet)
        return result


def _result(queue: Queue, fleet: list[Host]) -> Overload:
    right = [host.right_at - QUIET for host in fleet if not host.left]
    ended = len(right) == len(fleet)
    end = max(right) if ended else LONGEST
    return Overload(
        hosts=len(fleet),
        rate=queue.rate,
        writes=len(fleet) * PROVIDERS,
        sent=_bins([at - QUIET for at in queue.sent], end),
        done=_bins([at - QUIET for at in queue.done], end),
        right=_bins(right, end),
        refused=queue.refused,
        given_up=queue.given_up,
        seconds=round(end, 1) if ended else None,
    )


def _bins(times: list[float], end: float) -> list[int]:
    """Return how many of the times, in seconds, are in each ``BIN`` seconds."""
    counts = [0] * ceil(end / BIN)
    for at in times:
        if at < end:
            counts[int(at / BIN)] += 1
    return counts
