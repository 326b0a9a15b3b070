"""Names and parents that the tree as a whole allows, and which providers can be removed.  Pure.

A move, rename or creation that is not allowed is undone.  A provider to be removed is only
emptied while a provider that stays is below it.
"""

from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace

from agent.ownership.policy import Policy
from reportclient.model import Provider
from reportclient.snapshot import Snapshot


@dataclass(slots=True)
class PlaceChanges:
    """``changes`` is by provider UUID, as the assertions want it; it is corrected in place."""

    observed: Snapshot
    policy: Policy
    changes: dict[str, Provider | None]
    undone: list[tuple[Provider, str]] = field(default_factory=list)
    """Providers as they were wanted, each with the reason why that was undone."""

    def check(self, leaving: Collection[str]) -> list[str]:
        """Undo what is not allowed and remove the providers that leave.

        Return the UUIDs of leaving providers that have to stay, since a provider below them stays.
        The names of leaving providers can be used at once.
        """
        leaving = frozenset(leaving)
        self._undo_disallowed(leaving)
        staying: dict[str, None] = {}
        for uuid in {**self.observed.providers, **self.changes} if leaving else ():
            provider = None if uuid in leaving else self._now(uuid)
            while provider is not None and provider.parent_uuid is not None:
                if provider.parent_uuid in leaving:
                    staying[provider.parent_uuid] = None
                provider = self._now(provider.parent_uuid)
        self.changes.update(dict.fromkeys(leaving.difference(staying)))
        self._undo_disallowed(())
        return list(staying)

    def _undo_disallowed(self, free: Collection[str]) -> None:
        """Undo each move, rename and creation that is not allowed; each may cause another one."""
        while (problem := next(self._disallowed(free), None)) is not None:
            self.undone.append(problem)
            new = problem[0]
            old = self.observed.get(new.uuid)
            if old is None:
                del self.changes[new.uuid]
            else:
                back = replace(new, name=old.name, parent_uuid=old.parent_uuid)
                self.changes[new.uuid] = back

    def _disallowed(self, free: Collection[str]) -> Iterator[tuple[Provider, str]]:
        """Yield the changes that are not allowed, with the reason.

        ``free`` are the providers whose names can be used.
        """
        names: dict[str, str] = {}
        for uuid, new in self.changes.items():
            old = self.observed.get(uuid)
            if new is None or (old and (old.name, old.parent_uuid) == (new.name, new.parent_uuid)):
                continue
            root, first = self._root_of(new), names.setdefault(new.name, uuid)
            named = self.observed.named(new.name)
            now = None if named is None or named.uuid in free else self._now(named.uuid)
            holder = now.uuid if now is not None and now.name == new.name else first
            if root is None:
                yield new, "not created: its parent was not created"
            elif root in self.policy.foreign:
                yield new, "not created: its parent is owned by another service"
            elif root not in {self.policy.root, self.observed.root_of(uuid) if old else root}:
                yield new, "not moved: the new parent is in the tree of another root"
            elif holder != uuid:
                text = f"not created or renamed: provider {holder} of another owner has its name"
                yield new, text

    def _now(self, uuid: str) -> Provider | None:
        return self.changes[uuid] if uuid in self.changes else self.observed.get(uuid)

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
