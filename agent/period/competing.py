"""Whether another service takes our root for its own: by its tag, or by its name.  Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from agent.period.service_tag import service_of, tags_of_others
from reportclient.model import Provider
from reportclient.plan import Operation, SetInventories
from reportclient.snapshot import Snapshot

OVERTURNED = 3
"""So often somebody has to undo the same in the same way, to be told."""
CALM = 5
"""Readings without it until that is over."""


@dataclass(slots=True)
class Overturned:
    """What somebody else made of a provider that we had written, and how often."""

    theirs: Provider | None
    times: int = 1
    calm: int = 0


@dataclass(slots=True)
class CompetingOwners:
    """What the last reading of a root showed."""

    other_tag: str | None = None
    """The service tag that was put in place of ours."""
    other_name: str | None = None
    """The name that somebody else gave the root, until it is seen with its own again."""

    overturned: dict[str, Overturned] = field(default_factory=dict)
    """By the UUID of the provider."""
    _written: set[str] = field(default_factory=set)
    """Providers that we have written since the last reading."""

    def wrote(self, done: Iterable[Operation]) -> None:
        """This is in Placement because of us."""
        for operation in done:
            if isinstance(operation, SetInventories):
                self._written.update(operation.inventories)
            elif uuid := getattr(operation, "uuid", None):
                self._written.add(uuid)

    def compare(self, before: Snapshot, now: Snapshot) -> None:
        """Count who undoes what we have written, with what was read for something else.

        Two agents with one identity, from a copied disk, write in turns for ever; neither
        meets an error.  What somebody changes once, or never the same way, is no such thing.
        """
        for uuid in [*self.overturned]:
            self.overturned[uuid].calm += 1
            if self.overturned[uuid].calm > CALM:
                del self.overturned[uuid]
        for uuid in self._written:
            theirs = now.get(uuid)
            if theirs != before.get(uuid):
                self._count(uuid, theirs)
        self._written = set()

    def _count(self, uuid: str, theirs: Provider | None) -> None:
        same = self.overturned.get(uuid)
        if same is None or same.theirs != theirs:
            self.overturned[uuid] = Overturned(theirs)
        else:
            same.times, same.calm = same.times + 1, 0

    def compare_own(
        self, before: Provider | None, root: Provider | None, node: str, tag: str
    ) -> None:
        """Compare a root that was ``before`` with what it is now; ``tag`` is ours, or empty."""
        tagged = bool(tag) and before is not None and tag in before.traits
        others = tags_of_others(root.traits, tag) if root and tagged else ()
        self.other_tag = next(iter(sorted(others)), None)
        if root is None or root.name == node:
            self.other_name = None
        elif before is not None and before.name == node:
            self.other_name = root.name

    def degraded(self, uuid: str, node: str) -> dict[str, str]:
        """What is wrong, by part."""
        degraded = {}
        if self.other_tag is not None:
            service = service_of(self.other_tag)
            degraded["node"] = f"is reported by the service with compute_id {service} as well"
        if self.other_name is not None:
            degraded["name"] = (
                f"somebody else named the provider {uuid} of {node} {self.other_name}; it gets "
                "its name back. If that is a host with the same compute_id, from a copied disk, "
                "each takes the provider from the other: stop one, empty its state_path, start it"
            )
        lasting = [each for each, one in self.overturned.items() if one.times >= OVERTURNED]
        if lasting:
            degraded["twin"] = (
                f"somebody else undoes what is written to {len(lasting)} provider(s), "
                f"{lasting[0]} first, again and again. If that is a host with the same "
                "compute_id and name, from a copied disk: stop one, empty its state_path, start it"
            )
        return degraded
