"""Allocations on a tree, read when they are accessed, and those that a reshape moves."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from itertools import chain
from typing import Any

from reportclient.http import API
from reportclient.model import Allocations
from reportclient.reader import allocations_of, consumers_of
from reportclient.reshape import Affected, moved_allocations, used_providers
from reportclient.snapshot import Snapshot
from reportclient.view import View


class LazyAllocations(Mapping[str, dict[str, Any]]):
    """Allocations by consumer, each read when it is looked at; copies, to be changed at will.

    Who holds something is one GET for each provider with inventory, what a consumer holds
    one for each consumer.  Nobody who does not look costs a call.
    """

    def __init__(self, view: View, api: API) -> None:
        self._view, self._api = view, api
        self._holders: dict[str, list[str]] | None = None
        self._consumers: dict[str, None] = {}
        self.read: Allocations = {}
        """As they were, of the consumers that were looked at."""

    def holders(self) -> dict[str, list[str]]:
        """UUIDs of consumers by provider."""
        if self._holders is None:
            # Where there is no inventory there are no allocations.
            ours = (one for one in self._view.snapshot.walk() if one.inventory)
            uuids = [one.uuid for one in ours if one.uuid not in self._view.sharing]
            self._holders = {uuid: consumers_of(uuid, self._api) for uuid in uuids}
            self._consumers = dict.fromkeys(chain(*self._holders.values()))
        return self._holders

    def __getitem__(self, consumer: str) -> dict[str, Any]:
        if consumer not in self:
            raise KeyError(consumer)
        if consumer not in self.read:
            self.read[consumer] = allocations_of(consumer, self._api)
        return deepcopy(self.read[consumer])

    def __contains__(self, consumer: object) -> bool:
        self.holders()
        return consumer in self._consumers

    def __iter__(self) -> Iterator[str]:
        self.holders()
        return iter(self._consumers)

    def __len__(self) -> int:
        self.holders()
        return len(self._consumers)


@dataclass(frozen=True, slots=True)
class Moves:
    """Allocations that a reshape moves, and the providers that others hold something of."""

    allocations: Allocations | None = None
    in_use: frozenset[str] = frozenset()

    @classmethod
    def from_allocations(
        cls, held: LazyAllocations | None, after: Allocations | None, old: Snapshot, new: Snapshot
    ) -> "Moves":
        """From what was held and what shall be; nothing moves where that is not said.

        :raises ValueError: nobody asked who holds anything.
        :raises reportclient.reshape.AllocationsBroken: allocations were lost or invented.
        """
        if after is None:
            return cls()
        if held is None:
            raise ValueError("allocations() was not asked for this tree, or they are moved already")
        before = {consumer: held.read[consumer] for consumer in held.read if consumer in after}
        moved = moved_allocations(before, after, Affected.between(old, new))
        others = {
            uuid for uuid, users in held.holders().items() if any(one not in after for one in users)
        }
        return cls(moved, frozenset(others | used_providers(after)))
