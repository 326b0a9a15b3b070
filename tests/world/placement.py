"""The simulated Placement, and which of its data is foreign.

It is the in-memory server that ``tests/contract`` compares with a real one.
"""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Any

from reportclient.errors import PlacementError
from reportclient.testing.fake_placement import FakePlacement, Stranger
from reportclient.testing.fake_store import Row

if TYPE_CHECKING:
    from tests.world.invariants import Invariants
    from tests.world.machine import Machine

SQUATTER = "eeeeeeee-0000-4000-8000-"
"""The beginning of the UUIDs of foreign roots that have the name of a provider of a host."""
_PROVIDER = re.compile(r"/resource_providers/([^/?]+)")


@dataclass
class Foreign:
    """Data in Placement that no agent owns and that has to stay.

    ``claims`` are those of other services, by provider, as ``(kind, name): value``.  ``providers``
    belong to other services.  ``guests`` has the allocations of each consumer, by class.
    """

    claims: dict[str, dict[tuple[str, str], Any]] = field(default_factory=dict)
    providers: dict[str, str] = field(default_factory=dict)
    guests: dict[str, dict[str, int]] = field(default_factory=dict)

    def forget(self, uuid: str) -> None:
        """Note that a provider was deleted."""
        self.claims.pop(uuid, None)
        self.providers.pop(uuid, None)


class Placement:
    def __init__(self) -> None:
        self.fake = FakePlacement()
        self.foreign = Foreign()
        self.trace = hashlib.sha256()
        """A hash of all requests of agents in their order: equal hashes mean equal histories."""
        self.invariants: Invariants
        self.stranger = Stranger(self._answer)
        self.deleted: set[str] = set()
        """Providers that were deleted once; if created again, their generations start anew."""
        self.restored_at = -inf
        self.restores = 0
        self.restored_outside: set[str] = set()
        """Providers that a restore brought back outside of the tree that they had left."""
        self.is_late = False
        """Whether the current request was given up by its client before."""
        self._backup: tuple[Any, ...] = ({}, {}, Foreign())

    @property
    def rows(self) -> Mapping[str, Row]:
        return self.fake.store.providers

    def carry_out(self, machine: Machine, method: str, path: str, **body: Any) -> dict[str, Any]:
        """Carry out a request of an agent and check the rules for writes."""
        self.trace.update(f"{machine.label} {method} {path} {body['json']}".encode())
        if method == "GET":
            return self._answer(method, path, **body)
        try:
            return self._answer(method, path, **body)
        finally:
            machine.writes += 1
            named = _PROVIDER.match(path)
            uuid = named[1] if named else None
            self.invariants.check_write(machine, method, path, uuid)
            if method == "DELETE" and uuid is not None and uuid not in self.rows:
                self.foreign.forget(uuid)

    def _answer(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        answer = self.fake.answer(method, path, **body)
        named = _PROVIDER.match(path) if method == "DELETE" else None
        if named and named[1] not in self.rows:
            self.deleted.add(named[1])
        return answer

    def carry_out_late(self, machine: Machine, carry_out: Callable[[], object]) -> None:
        """Carry out a request that was given up; the agent may not know what it creates."""
        before, self.is_late = self._names(), True
        carry_out()
        self.is_late = False
        machine.late |= self._names() - before

    def _names(self) -> set[tuple[str, str]]:
        return {
            (uuid, name)
            for uuid, row in self.rows.items()
            for name in (*row.inventory, *row.traits, *row.aggregates)
        }

    def allocations(self) -> dict[str, dict[str, int]]:
        """Return the allocations of each consumer by class, summed over the providers."""
        held: dict[str, dict[str, int]] = {}
        for key, consumer in self.fake.store.consumers.items():
            total = held.setdefault(key, {})
            for resources in consumer.uses.values():
                for name, amount in resources.items():
                    total[name] = total.get(name, 0) + amount
        return held

    def tree(self, root: str) -> list[str]:
        if root not in self.rows:
            return []
        return sorted(self.fake.store.subtree(root))

    # -- what happens to its database

    def back_up(self) -> None:
        store = self.fake.store
        self._backup = copy.deepcopy((store.providers, store.consumers, self.foreign))

    def restore(self, now: float) -> None:
        self.restored_at = now
        self.restores += 1
        store = self.fake.store
        store.providers, store.consumers, self.foreign = copy.deepcopy(self._backup)
        self.restored_outside |= {
            uuid for uuid, row in self.rows.items() if row.name.endswith(f"_removed_{uuid}")
        }


def is_accepted(act: Any, *args: Any, **named: Any) -> bool:
    """Make a request of another service; return whether Placement accepted it."""
    try:
        act(*args, **named)
    except PlacementError:
        return False
    return True
