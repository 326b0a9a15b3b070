"""The providers of a host that is retired, and what prevents it.  GETs only.

A root costs 2 GETs, each provider below and beside it 1 more for who uses it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from agent.ownership.ledger import Ledger, joined
from agent.period.service_tag import tag_of, tags_of_others
from agent.reporting.conditions import Condition
from reportclient.http import API
from reportclient.model import Provider
from reportclient.plan import DeleteProvider, Operation, Plan, SetTraits
from reportclient.reader import (
    Listed,
    consumers_of,
    members_of,
    part_of,
    provider_by_uuid,
    traits_of,
)
from reportclient.snapshot import Snapshot
from reportclient.view import View

NODE = "COMPUTE_NODE"
SHOWN = 5
"""How many consumers are named."""


@dataclass(frozen=True, slots=True)
class Leaver:
    """A provider, and what becomes of it."""

    provider: Provider
    users: tuple[str, ...] = ()
    foreign: bool = False
    """Somebody else made it, below one that goes."""
    shared: bool = False
    """Other hosts have it too: it stays."""

    @property
    def fate(self) -> str:
        """The provider's fate in one word, for programs."""
        if self.shared:
            return "shared"
        if self.foreign:
            return "foreign"
        return "in use" if self.users else "goes"

    def blocks(self) -> Iterator[Condition]:
        """Why it can't go."""
        name = f"{self.provider.name} ({self.provider.uuid})"
        if self.fate == "foreign":
            take_over = f"take it over with `computectl adopt {self.provider.uuid}`"
            step = f"remove it with what made it, or {take_over}"
            yield Condition("was created by another service", name, next_step=step)
        if self.fate == "in use":
            more = f" and {len(self.users) - SHOWN} more" if len(self.users) > SHOWN else ""
            users = ", ".join(self.users[:SHOWN]) + more
            step = "move these guests away, or delete them"
            yield Condition(f"is in use by {users}", name, next_step=step)


@dataclass(frozen=True, slots=True)
class Leaving:
    """A root of this host, with the providers below and beside it.

    ``marks`` is what its traits become where the root is another service's and stays.
    ``reported_by`` others since, by their service tags, or by COMPUTE_NODE where that is not
    known: then nothing of it goes.
    """

    root: str
    leavers: tuple[Leaver, ...]
    generations: Mapping[str, int] = field(default_factory=dict)
    traits: frozenset[str] | None = None
    reported_by: frozenset[str] = frozenset()

    def view(self) -> View:
        """Return the view on which the removal is planned."""
        providers = [one.provider for one in self.leavers]
        there = {one.uuid for one in providers}
        alone = [
            one if one.parent_uuid in there else Provider(one.uuid, one.name) for one in providers
        ]
        if self.traits is not None:
            alone.append(Provider(self.root, self.root, traits=self.traits))
        return View(Snapshot.build(alone), self.generations, certain=True)

    def plan(self) -> Plan:
        """Children first."""
        operations: list[Operation] = [
            DeleteProvider(one.provider.uuid) for one in self.leavers if one.fate == "goes"
        ]
        if self.traits is not None:
            operations.append(SetTraits(self.root, self.traits))
        return Plan(tuple(operations))


def leaving(  # noqa: PLR0913  by name
    root: str,
    ledger: Ledger,
    api: API,
    *,
    owners: frozenset[str],
    attached: bool = False,
    service: str | None = None,
) -> Leaving:
    """Return what goes with this root.

    A compute node without one of the ``owners``' traits may be nova-compute's by now: it stays.
    ``service``: this one's UUID, where others have its nodes too.
    """
    listed = {item["uuid"]: item for item in members_of(root, api)}
    others = frozenset[str]()
    if root in listed and not attached:
        traits = traits_of(root, api)
        if NODE in traits and not owners & traits:
            others = frozenset({NODE})
        elif service:
            own = tag_of(service)
            others = tags_of_others(traits, own) if own not in traits else others
    if others:
        return Leaving(root, (), reported_by=others)
    below = [_leaver(item, ledger, root, api) for item in _ours(listed, root, ledger, attached)]
    beside = [one for uuid in _lone(listed, ledger) for one in _sharing(uuid, listed, api)]
    kept = _kept_traits(root, ledger, api) if attached and root in listed else None
    generations = {uuid: item["generation"] for uuid, item in listed.items()}
    return Leaving(root, (*reversed(below), *beside), generations, kept)


def _ours(
    listed: Mapping[str, Listed], root: str, ledger: Ledger, attached: bool
) -> Iterator[Listed]:
    """Parents first, with what others hung below ours."""
    tree = Snapshot.build(_provider(item) for item in listed.values())
    going: set[str] = set()
    for one in tree.walk(root) if root in tree else ():
        # The root was this agent's before it was attached: the ledger may still say so.
        is_ours = not attached if one.uuid == root else ledger.is_ours(one.uuid)
        if is_ours or one.parent_uuid in going:
            going.add(one.uuid)
            yield listed[one.uuid]


def _leaver(item: Listed, ledger: Ledger, root: str, api: API) -> Leaver:
    foreign = item["uuid"] != root and not ledger.is_ours(item["uuid"])
    users = () if foreign else tuple(consumers_of(item["uuid"], api))
    return Leaver(_provider(item), users, foreign)


def _lone(listed: Mapping[str, Listed], ledger: Ledger) -> Iterable[str]:
    return sorted(uuid for uuid in ledger.holders if uuid not in listed and ledger.is_ours(uuid))


def _sharing(uuid: str, listed: Mapping[str, Listed], api: API) -> Iterator[Leaver]:
    """A provider beside the root: it stays while another host is in one of its aggregates."""
    item = provider_by_uuid(uuid, api)
    if item is None:
        return
    if any(one["uuid"] not in listed for one in sharing_with(uuid, api)):
        yield Leaver(_provider(item), shared=True)
    else:
        yield Leaver(_provider(item), tuple(consumers_of(uuid, api)))


def sharing_with(uuid: str, api: API) -> list[Listed]:
    """Other providers in the aggregates of this one; 2 GETs."""
    aggregates = part_of(f"/resource_providers/{uuid}/aggregates", "aggregates", api)
    path = f"/resource_providers?member_of=in:{','.join(sorted(aggregates))}"
    members = part_of(path, "resource_providers", api) if aggregates else []
    return [one for one in members if one["uuid"] != uuid]


def _kept_traits(root: str, ledger: Ledger, api: API) -> frozenset[str] | None:
    """Return an attached root's traits without ours; ``None`` if none is ours."""
    traits = traits_of(root, api)
    ours = joined(ledger.holdings_on(root).values()).traits & traits
    return traits - ours if ours else None


def _provider(item: Listed) -> Provider:
    return Provider(item["uuid"], item["name"], item["parent_provider_uuid"])
