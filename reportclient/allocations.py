"""Allocations on a tree, read on access, and the allocations that a reshape moves."""

from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any

from reportclient.http import API
from reportclient.model import Allocations, used_providers
from reportclient.reader import allocations_of, allocations_on
from reportclient.reshape import Affected, moved_allocations
from reportclient.snapshot import Snapshot
from reportclient.view import View


class LazyAllocations(Mapping[str, dict[str, Any]]):
    """The allocations on a view's tree by consumer UUID, read on first access.

    Values are copies in the format of ``GET /allocations/{consumer_uuid}``; change them freely.
    The first access sends 1 GET for each provider with inventory, and each consumer's value
    1 GET more.  Each raises :class:`reportclient.errors.PlacementError` if reading fails.  One
    thread at a time may use it.
    """

    def __init__(self, view: View, api: API) -> None:
        self._view, self._api = view, api
        self.read: Allocations = {}
        """The allocations as read, of the consumers that were accessed."""

    @cached_property
    def holders(self) -> dict[str, list[str]]:
        """The UUIDs of the consumers by provider UUID."""
        # A provider without inventory has no allocations.
        stocked = (each for each in self._view.snapshot.walk() if each.inventory)
        uuids = [each.uuid for each in stocked if each.uuid not in self._view.sharing]
        return {uuid: [*allocations_on(uuid, self._api)] for uuid in uuids}

    @cached_property
    def _consumers(self) -> dict[str, None]:
        return dict.fromkeys(chain(*self.holders.values()))

    def __getitem__(self, consumer: str) -> dict[str, Any]:
        if consumer not in self:
            raise KeyError(consumer)
        if consumer not in self.read:
            self.read[consumer] = allocations_of(consumer, self._api)
        return deepcopy(self.read[consumer])

    def __contains__(self, consumer: object) -> bool:
        return consumer in self._consumers

    def __iter__(self) -> Iterator[str]:
        return iter(self._consumers)

    def __len__(self) -> int:
        return len(self._consumers)


@dataclass(frozen=True, slots=True)
class Moves:
    """The allocations that a reshape moves, by consumer, and the providers that stay in use."""

    allocations: Allocations | None = None
    in_use: frozenset[str] = frozenset()

    @classmethod
    def from_allocations(
        cls, held: LazyAllocations | None, after: Allocations, old: Snapshot, new: Snapshot
    ) -> "Moves":
        """Return the checked difference between ``held`` and ``after``.

        :raises ValueError: ``held`` is missing: the allocations were never read.
        :raises reportclient.reshape.AllocationsBroken: allocations were lost or invented.
        """
        if held is None:
            raise ValueError(
                "call Client.allocations() for this root before each update with allocations"
            )
        before = {consumer: held.read[consumer] for consumer in held.read if consumer in after}
        moved = moved_allocations(before, after, Affected.between(old, new))
        others = {
            uuid for uuid, users in held.holders.items() if any(user not in after for user in users)
        }
        return cls(moved, frozenset(others | used_providers(after)))
