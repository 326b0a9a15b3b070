"""The order of creates, renames and moves, so that each is valid when it is sent.  Pure.

Parents come before children.  A provider that holds a name which another one needs is
renamed first.  If names are exchanged in a cycle, or the holder can't be placed yet, the
holder is temporarily renamed to its own UUID.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

from reportclient.model import Provider
from reportclient.plan import CreateProvider, UpdateProvider
from reportclient.snapshot import Snapshot


@dataclass(slots=True)
class Placing:
    """Creates, renames and moves that turn ``old`` into ``wanted``.

    ``wanted`` has the changed providers by UUID, parents first.  ``gone`` are the UUIDs of
    providers that are deleted afterwards, ``early`` those of them that are deleted before.
    """

    old: Snapshot
    wanted: dict[str, Provider]
    gone: frozenset[str]
    early: frozenset[str]
    placed: set[str] = field(default_factory=set)
    freed: set[str] = field(default_factory=set)
    """Names that their holders in ``old`` have given up."""

    def operations(self) -> Iterator[CreateProvider | UpdateProvider]:
        """Yield the operations in order."""
        for uuid in self.wanted:
            if uuid not in self.placed:
                yield from self._with_names_freed(uuid)

    def _with_names_freed(self, uuid: str) -> Iterator[CreateProvider | UpdateProvider]:
        chain = {uuid: None}
        last = uuid
        while (holder := self._holder(last)) is not None:
            if holder.uuid in chain or not self._is_renamed_only(holder.uuid):
                self.freed.add(holder.name)
                yield UpdateProvider(holder.uuid, holder.uuid, holder.parent_uuid)
                break
            chain[last := holder.uuid] = None
        for member in reversed(chain):
            yield from self._place(member)

    def _place(self, uuid: str) -> Iterator[CreateProvider | UpdateProvider]:
        self.placed.add(uuid)
        provider, before = self.wanted[uuid], self.old.get(uuid)
        place = (uuid, provider.name, provider.parent_uuid)
        if before is None:
            yield CreateProvider(*place)
        elif (before.name, before.parent_uuid) != (provider.name, provider.parent_uuid):
            self.freed.add(before.name)
            yield UpdateProvider(*place, moved=before.parent_uuid != provider.parent_uuid)

    def _holder(self, uuid: str) -> Provider | None:
        """Return the changing or removed provider that still holds the wanted name, or ``None``."""
        name = self.wanted[uuid].name
        holder = self.old.named(name)
        if holder is None or holder.uuid == uuid or name in self.freed:
            return None
        movable = holder.uuid in self.wanted or holder.uuid in self.gone
        return holder if movable and holder.uuid not in self.early else None

    def _is_renamed_only(self, uuid: str) -> bool:
        before, after = self.old.get(uuid), self.wanted.get(uuid)
        return before is not None and after is not None and before.parent_uuid == after.parent_uuid
