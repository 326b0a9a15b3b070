"""Names and parents that the tree as a whole allows, and which providers can be removed.  Pure.

A move, rename or creation that is not allowed is undone.  A provider to be removed is only
emptied while a provider that stays is below it.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from agent.ownership.policy import Policy
from reportclient.model import Provider
from reportclient.snapshot import Snapshot

Changes = dict[str, Provider | None]


@dataclass(slots=True)
class PlaceChanges:
    """``changes`` is by provider UUID, as the assertions want it; it is corrected in place."""

    observed: Snapshot
    policy: Policy
    changes: Changes
    undone: list[tuple[Provider, str]] = field(default_factory=list)
    """Providers as they were wanted, each with the reason why that was undone."""

    def check(self, leaving: Collection[str]) -> list[str]:
        """Undo what is not allowed and remove the providers that leave.

        Return the UUIDs of leaving providers that have to stay, since a provider below them stays.
        The names of leaving providers can be used at once.
        """
        leaving = frozenset(leaving)
        self._undo_disallowed(leaving)
        staying = self._held_by_children(leaving)
        self.changes.update(dict.fromkeys(leaving.difference(staying)))
        self._undo_disallowed(())
        return staying

    def _undo_disallowed(self, free: Collection[str]) -> None:
        """Undo each move, rename and creation that the tree as a whole does not allow."""
        placed = [u for u, new in self.changes.items() if new is not None and self._moved(new)]
        while problem := self._first_problem(placed, free):
            placed.remove(problem[0])
            self._undo(*problem)

    def _first_problem(
        self, placed: Sequence[str], free: Collection[str]
    ) -> tuple[str, str] | None:
        names: dict[str, str] = {}
        for uuid in placed:
            new = self._now(uuid)
            assert new is not None
            problem = self._problem(new, names.setdefault(new.name, uuid), free)
            if problem is not None:
                return uuid, problem
        return None

    def _held_by_children(self, leaving: Collection[str]) -> list[str]:
        staying: dict[str, None] = {}
        uuids = {**self.observed.providers, **self.changes} if leaving else ()
        for uuid in uuids:
            if uuid not in leaving and self._now(uuid) is not None:
                staying.update(dict.fromkeys(self._leaving_above(uuid, leaving)))
        return list(staying)

    def _leaving_above(self, uuid: str, leaving: Collection[str]) -> Iterator[str]:
        provider = self._now(uuid)
        while provider is not None and provider.parent_uuid is not None:
            if provider.parent_uuid in leaving:
                yield provider.parent_uuid
            provider = self._now(provider.parent_uuid)

    def _now(self, uuid: str) -> Provider | None:
        return self.changes[uuid] if uuid in self.changes else self.observed.get(uuid)

    def _moved(self, new: Provider) -> bool:
        old = self.observed.get(new.uuid)
        return old is None or (old.name, old.parent_uuid) != (new.name, new.parent_uuid)

    def _undo(self, uuid: str, why: str) -> None:
        old, new = self.observed.get(uuid), self.changes.pop(uuid)
        assert new is not None
        self.undone.append((new, why))
        if old is not None:
            self.changes[uuid] = replace(new, name=old.name, parent_uuid=old.parent_uuid)

    def _problem(self, new: Provider, first: str, free: Collection[str]) -> str | None:
        """Return why a change is not allowed; ``first`` is the first UUID that wants the name."""
        uuid, root = new.uuid, self._root_of(new)
        if root is None:
            return "not created: its parent was not created"
        if root in self.policy.foreign:
            return "not created: its parent is owned by another service"
        own = {self.policy.root, self.observed.root_of(uuid) if uuid in self.observed else root}
        if root not in own:
            return "not moved: the new parent is in the tree of another root"
        observed = self.observed.named(new.name)
        now = None if observed is None or observed.uuid in free else self._now(observed.uuid)
        holder = now.uuid if now is not None and now.name == new.name else first
        if holder != uuid:
            return f"not created or renamed: provider {holder} of another owner has its name"
        return None

    def _root_of(self, provider: Provider) -> str | None:
        """Return the root's UUID; ``None`` if an ancestor is missing, or is below the provider."""
        seen = set()
        above: Provider | None = provider
        while above is not None and above.parent_uuid is not None:
            if above.uuid in seen:
                return None
            seen.add(above.uuid)
            above = self._now(above.parent_uuid)
        return None if above is None else above.uuid
