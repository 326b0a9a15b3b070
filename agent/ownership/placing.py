"""Where the providers shall be: names, parents, and what goes.  Pure.

A provider that can't be where it was put stays where it was, or is not made; one that
goes stays, with nothing of ours in it, while something that stays is below it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from agent.ownership.policy import Policy
from reportclient.model import Provider
from reportclient.snapshot import Snapshot

Changes = dict[str, Provider | None]


@dataclass(slots=True)
class Placing:
    """``changes`` are what the contents and the assertions led to; mended in place."""

    observed: Snapshot
    policy: Policy
    changes: Changes
    told: list[tuple[Provider, str]] = field(default_factory=list)

    def placed(self, leaving: Collection[str]) -> list[str]:
        """Mend it, and take away what leaves; UUIDs of what has to stay, as something below does.

        Others may have the names of what leaves.
        """
        leaving = frozenset(leaving)
        self._mend(leaving)
        kept = self._kept(leaving)
        self.changes.update(dict.fromkeys(leaving.difference(kept)))
        self._mend(())
        return kept

    def _mend(self, free: Collection[str]) -> None:
        """Undo each move, rename and creation that the tree as a whole does not allow."""
        placed = [u for u, new in self.changes.items() if new is not None and self._moved(new)]
        problems = ((uuid, self._problem(uuid, placed, free)) for uuid in tuple(placed))
        while bad := next(((uuid, why) for uuid, why in problems if why), None):
            placed.remove(bad[0])
            self._undo(*bad)
            problems = ((uuid, self._problem(uuid, placed, free)) for uuid in tuple(placed))

    def _kept(self, leaving: Collection[str]) -> list[str]:
        kept: dict[str, None] = {}
        everybody = {**self.observed.providers, **self.changes} if leaving else ()
        for uuid in everybody:
            if uuid not in leaving and self._now(uuid) is not None:
                kept.update(dict.fromkeys(self._leaving_above(uuid, leaving)))
        return list(kept)

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
        self.told.append((new, why))
        if old is not None:
            self.changes[uuid] = replace(new, name=old.name, parent_uuid=old.parent_uuid)

    def _problem(self, uuid: str, placed: Sequence[str], free: Collection[str]) -> str | None:
        new, old = self._now(uuid), self.observed.get(uuid)
        assert new is not None
        root = self._root_of(new)
        if root is None:
            return "is below a provider that is not made: not made either"
        if root in self.policy.strangers:
            return "is below a provider that belongs to somebody else: not made"
        if old is not None and root not in {self.observed.root_of(uuid), self.policy.root}:
            return "would move to the tree of another root: it stays where it is"
        holder = self._holder(new, placed, free)
        if holder is not None:
            return f"its name is that of {holder}, which is not this agent's to remove or rename"
        return None

    def _root_of(self, provider: Provider) -> str | None:
        """``None``: something above is not there, or is below the provider itself."""
        seen = set()
        above: Provider | None = provider
        while above is not None and above.parent_uuid is not None:
            if above.uuid in seen:
                return None
            seen.add(above.uuid)
            above = self._now(above.parent_uuid)
        return None if above is None else above.uuid

    def _holder(self, new: Provider, placed: Sequence[str], free: Collection[str]) -> str | None:
        """The UUID of another provider that has the name and keeps it."""
        there = self.observed.named(new.name)
        if there is not None and there.uuid not in {new.uuid, *free}:
            now = self._now(there.uuid)
            if now is not None and now.name == new.name:
                return there.uuid
        before = (self._now(uuid) for uuid in placed[: placed.index(new.uuid)])
        return next((one.uuid for one in before if one is not None and one.name == new.name), None)
