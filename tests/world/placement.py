"""The one Placement, and what in it is whose.

It is the fake that ``tests/contract`` holds against a real one.
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
from reportclient.testing.fake_placement import FakePlacement
from reportclient.testing.fake_store import Row
from reportclient.testing.stranger import Stranger

if TYPE_CHECKING:
    from tests.world.invariants import Invariants
    from tests.world.machine import Machine

_PROVIDER = re.compile(r"/resource_providers/([^/?]+)")


@dataclass
class Whose:
    """What is not the agents': it has to stay.

    ``things`` are a stranger's by provider, as ``(kind, name): value``; ``providers`` are his,
    and ``guests`` are what each consumer holds, by class.
    """

    things: dict[str, dict[tuple[str, str], Any]] = field(default_factory=dict)
    providers: dict[str, str] = field(default_factory=dict)
    guests: dict[str, dict[str, int]] = field(default_factory=dict)

    def forget(self, uuid: str) -> None:
        """This provider is gone, with all that it had."""
        self.things.pop(uuid, None)
        self.providers.pop(uuid, None)


class Placement:
    def __init__(self) -> None:
        self.fake = FakePlacement()
        self.whose = Whose()
        self.trace = hashlib.sha256()
        """Of all that agents asked, in its order: two equal ones are the same history."""
        self.invariants: Invariants
        self.stranger = Stranger(self._answer)
        self.deleted: set[str] = set()
        """Providers that were deleted once: one that is made anew counts its generations anew."""
        self.restored_at = -inf
        self.is_late = False
        """What is carried out now was given up before."""
        self._backup: tuple[Any, ...] = ({}, {}, Whose())

    @property
    def rows(self) -> Mapping[str, Row]:
        return self.fake.store.providers

    def carry_out(
        self, machine: Machine, method: str, path: str, *, json: Any = None
    ) -> dict[str, Any]:
        """A request of an agent, at this moment."""
        self.trace.update(f"{machine.label} {method} {path} {json}".encode())
        if method == "GET":
            return self._answer(method, path, json=json)
        try:
            return self._answer(method, path, json=json)
        finally:
            machine.writes += 1
            named = _PROVIDER.match(path)
            uuid = named[1] if named else None
            self.invariants.wrote(machine, method, path, uuid)
            if method == "DELETE" and uuid is not None and uuid not in self.rows:
                self.whose.forget(uuid)

    def _answer(self, method: str, path: str, **body: Any) -> dict[str, Any]:
        answer = self.fake.answer(method, path, **body)
        named = _PROVIDER.match(path) if method == "DELETE" else None
        if named and named[1] not in self.rows:
            self.deleted.add(named[1])
        return answer

    def carry_out_late(self, machine: Machine, carry_out: Callable[[], object]) -> None:
        """What it brings nobody may know for the agent's own any more."""
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

    def held(self) -> dict[str, dict[str, int]]:
        """What each consumer holds, whatever the provider, by class."""
        found: dict[str, dict[str, int]] = {}
        for key, consumer in self.fake.store.consumers.items():
            total = found.setdefault(key, {})
            for resources in consumer.uses.values():
                for name, amount in resources.items():
                    total[name] = total.get(name, 0) + amount
        return found

    def tree(self, root: str) -> list[str]:
        if root not in self.rows:
            return []
        return sorted(self.fake.store.subtree(root))

    # -- what happens to its database

    def back_up(self) -> None:
        store = self.fake.store
        self._backup = copy.deepcopy((store.providers, store.consumers, self.whose))

    def restore(self, now: float) -> None:
        self.restored_at = now
        store = self.fake.store
        store.providers, store.consumers, self.whose = copy.deepcopy(self._backup)


def tried(act: Any, *args: Any, **named: Any) -> bool:
    """What Placement refuses a stranger does not happen."""
    try:
        act(*args, **named)
    except PlacementError:
        return False
    return True
