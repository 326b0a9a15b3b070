"""A fleet and an overloaded Placement in virtual time: the agent's own schedule, root and writes.

Placement is one queue that carries out ``rate`` requests a second in the order of their arrival,
whether or not the host still waits for the answer.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import accumulate
from math import ceil, inf
from typing import Any

from agent.loop import Schedule as Periods
from agent.reporting.reports import Report
from reportclient.calls import Counting
from reportclient.diff import diff
from reportclient.errors import PlacementError, Unreachable
from reportclient.http import TIMEOUT
from reportclient.model import Inventory
from reportclient.root import PLAN_ANEW, Root
from reportclient.schedule import PERIOD, VERIFY_EVERY, Schedule, Times, doubled
from reportclient.snapshot import Snapshot
from reportclient.testing.fake_placement import FakePlacement
from tests.world.scheduler import Event, Scheduler

ANSWER = 0.01
"""Seconds that an answer takes to the host."""
BIN = 10
"""Seconds."""
TOTAL = Inventory(8, 0, 1, 8, 1, 1.0)


@dataclass
class Placement:
    """The queue; ``room`` requests can wait in it, further ones are answered with 503."""

    scheduler: Scheduler
    rate: float
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
        now, results = self.scheduler.now, []
        self.sent.append(now)
        if (self._free_at - now) * self.rate >= self.room:
            self.refused += 1
            self.scheduler.sleep(ANSWER)
            raise Unreachable("503", unsent=True)
        self._free_at = max(now, self._free_at) + 1 / self.rate

        def carried_out() -> None:
            self.done.append(self.scheduler.now)
            try:
                results.append(work())
            except PlacementError as err:
                results.append(err)

        self.scheduler.call(carried_out, self._free_at - now)
        self.scheduler.sleep(min(self._free_at - now + ANSWER, patience))
        if not results:
            self.given_up += 1
            raise Unreachable("no answer")
        if isinstance(results[0], PlacementError):
            raise results[0]
        return results[0]


@dataclass
class Host:
    """One host with a root and ``children``; ``wish`` is the total of each provider."""

    placement: Placement
    number: int
    children: int
    dice: random.Random
    timeout: float = TIMEOUT
    """Seconds that it waits for an answer at first."""
    needed: int = 0
    """Number of writes that were carried out."""
    right_at: float = 0.0
    """When the last change was in Placement."""
    left: set[str] = field(default_factory=set)
    """Paths of the writes that are not carried out yet."""
    _in_vain: int = 0

    def __post_init__(self) -> None:
        self.own = FakePlacement()
        names = [f"host{self.number}", *(f"host{self.number}_{n}" for n in range(self.children))]
        root = self.own.stranger.create_provider(names[0])
        uuids = [root, *(self.own.stranger.create_child(root, name) for name in names[1:])]
        for uuid in uuids:
            self.own.stranger.set_inventory(uuid, {"VCPU": TOTAL.as_dict()})
        self.root = Root(
            root,
            self,
            Times(pause=self.placement.scheduler.sleep),
            schedule=Schedule(uniform=self.dice.uniform),
            clock=self.placement.scheduler.clock,
        )
        self.root.read(self.own)
        self.root.schedule.audit_at = inf
        self.root.schedule.verify_at = self.dice.uniform(0, VERIFY_EVERY)
        self.desired = self.root.view.snapshot
        self.changed = Event(self.placement.scheduler)
        self.periods = Periods(PERIOD, 0.0)

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        needs: str | None = None,  # noqa: ARG002
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`; waits as ``PlacementAPI`` does."""
        patience = doubled(self.timeout, self._in_vain, 2 * self.timeout)
        try:
            answer: dict[str, Any] = self.placement.carry_out(
                lambda: self._carried_out(method, path, json), patience
            )
        except Unreachable as err:
            self._in_vain = 0 if err.unsent else self._in_vain + 1
            raise
        self._in_vain = 0
        return answer

    def _carried_out(self, method: str, path: str, json: Any) -> dict[str, Any]:
        answer = self.own.answer(method, path, json=json)
        if method == "PUT":
            self.needed += 1
            self.left.discard(path)
            if not self.left:
                self.right_at = self.placement.scheduler.now
        return answer

    def run(self) -> None:
        """Run periods for ever."""
        scheduler, period = self.placement.scheduler, PERIOD
        self.periods.due = scheduler.now + self.dice.uniform(0, period)
        while True:
            if self.changed.wait(self.periods.due - scheduler.now):  # not before the next period
                self.changed.clear()
                self.periods.due -= period * ((self.periods.due - scheduler.now) // period)
                scheduler.sleep(self.periods.due - scheduler.now)
            self.root.attempt(scheduler.now, self._period)
            self.periods.after(scheduler.now)
            if not self.left and self.root.view.certain:  # nothing to send until a verification
                due = self.root.schedule.verify_at - self.periods.due
                self.periods.due += period * max(0, ceil(due / period))

    def changes(self, wish: int) -> None:
        """Have the driver report another total of each provider from the next period on."""
        self.desired = self._with_total(wish)
        self.left = {
            f"/resource_providers/{uuid}/inventories" for uuid in self.root.view.generations
        }
        self.changed.set()

    def _with_total(self, total: int) -> Snapshot:
        tree = self.root.view.edit()
        for uuid in self.root.view.generations:
            tree.update_inventory(uuid, {"VCPU": {"total": total}})
        return tree.freeze()

    def _period(self, api: Counting) -> Report:
        try:
            self.root.refresh(api, self.placement.scheduler.now)
        except Unreachable:
            if not self.root.view.certain:
                raise
        plan = diff(self.root.view.snapshot, self.desired, names=self.root.view.names)
        outcome = self.root.write(plan, api)
        if isinstance(outcome.stopped_by, PLAN_ANEW):
            raise outcome.stopped_by
        return Report("", error=outcome.stopped_by or self.root.schedule.unreachable)


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

        Until a tenth of the hosts is left: these have their rests to end.
        """
        at = range(sum(done <= 0.9 * self.hosts for done in accumulate(self.right)) - 5)
        return min(sum(self.done[each : each + 6]) / (6 * BIN * self.rate) for each in at)


@dataclass
class Fleet:
    """Hosts at one Placement."""

    hosts: int
    rate: float
    room: float = inf
    children: int = 4
    timeout: float = TIMEOUT
    seed: int = 25

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.seed)
        self.placement = Placement(self.scheduler, self.rate, self.room)
        dice = random.Random(self.seed)
        self.all = [
            Host(self.placement, number, self.children, dice, self.timeout)
            for number in range(self.hosts)
        ]
        for host in self.all:
            self.scheduler.spawn(host.run)

    def until(self, end: float) -> None:
        """Let all hosts run."""
        self.scheduler.run(end)

    def change(self, within: float = 3600.0) -> Overload:
        """Have all drivers report something else at once; run until Placement has all of it.

        Nothing announces the change: no start, and no reload.
        """
        began, writes = self.scheduler.now, self.hosts * (1 + self.children)
        sent, done = len(self.placement.sent), len(self.placement.done)
        refused, given_up = self.placement.refused, self.placement.given_up
        for host in self.all:
            host.changes(9)
        while self.scheduler.now < began + within and any(host.left for host in self.all):
            self.until(self.scheduler.now + BIN)
        right = [host.right_at - began for host in self.all if not host.left]
        end = began + (max(right) if len(right) == self.hosts else within)
        return Overload(
            hosts=self.hosts,
            rate=self.rate,
            writes=writes,
            sent=_bins(self.placement.sent[sent:], began, end),
            done=_bins(self.placement.done[done:], began, end),
            right=_bins([began + each for each in right], began, end),
            refused=self.placement.refused - refused,
            given_up=self.placement.given_up - given_up,
            seconds=round(end - began, 1) if len(right) == self.hosts else None,
        )


def _bins(times: list[float], began: float, end: float) -> list[int]:
    """Return how many of the times are in each ``BIN`` seconds."""
    counts = [0] * ceil((end - began) / BIN)
    for at in times:
        if at < end:
            counts[int((at - began) / BIN)] += 1
    return counts
