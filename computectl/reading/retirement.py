"""The providers of a host to retire, and what prevents their removal.  GETs only.

Finding them takes 2 GETs for a root, and 1 for the consumers of each provider below and beside it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent.ownership.ledger import Ledger, joined
from agent.period.rules import Rules
from agent.period.traits import identifying_traits, tag_of, tags_of_others
from agent.reporting.reports import Condition
from reportclient.http import API
from reportclient.model import Provider
from reportclient.plain_text import first_few
from reportclient.reader import (
    Listed,
    consumers_of,
    members_of,
    other_hosts,
    provider_by_uuid,
    read_part,
)
from reportclient.snapshot import Snapshot

NODE = "COMPUTE_NODE"


@dataclass(frozen=True, slots=True)
class Leaver:
    """A provider of a host to retire.

    ``fate``: ``goes``; ``in use`` by ``users``; ``foreign``: another service created it, below a
    provider that is to be removed; ``shared``: it stays, since other hosts use it.
    """

    provider: Provider
    fate: str = "goes"
    users: tuple[str, ...] = ()

    @classmethod
    def unless_used(cls, item: Listed, api: API) -> "Leaver":
        """Return a provider that goes unless it has consumers; 1 GET."""
        users = tuple(consumers_of(item["uuid"], api))
        return cls(_provider(item), "in use" if users else "goes", users)

    def blocks(self) -> Iterator[Condition]:
        """Yield why the provider can't be removed."""
        name = f"{self.provider.name} ({self.provider.uuid})"
        if self.fate == "foreign":
            take_over = f"take it over with `computectl adopt {self.provider.uuid}`"
            step = f"remove it with the service that created it, or {take_over}"
            yield Condition("was created by another service", name, next_step=step)
        if self.fate == "in use":
            step = "move these guests away, or delete them"
            yield Condition(f"is in use by {first_few(self.users)}", name, next_step=step)


@dataclass(frozen=True, slots=True)
class Leaving:
    """A root of this host, with the providers below and beside it that are to be removed.

    ``traits``: the traits that a root of another service keeps; ``None``: the root's traits are
    not changed.  ``reported_by``: service tags of other services that report the root now, or
    COMPUTE_NODE if it may be nova-compute's; if there are any, nothing is removed.
    """

    root: str
    leavers: tuple[Leaver, ...]
    traits: frozenset[str] | None = None
    reported_by: frozenset[str] = frozenset()

    @property
    def going(self) -> set[str]:
        """Return the UUIDs of the providers to remove."""
        return {leaver.provider.uuid for leaver in self.leavers if leaver.fate == "goes"}


def leaving(
    root: str, ledger: Ledger, api: API, rules: Rules, service: str | None = None
) -> Leaving:
    """Return what is to be removed with a root.

    A compute node without one of the owner traits stays: nova-compute may report it by now.
    ``service``: this service's UUID, for a driver with several nodes, whose roots have tags.
    """
    attached, owners = rules.attached, identifying_traits(rules.owner_traits)
    listed = {item["uuid"]: item for item in members_of(root, api)}
    others = frozenset[str]()
    if root in listed and not attached:
        traits, _ = read_part(root, "traits", api)
        if NODE in traits and not owners & traits:
            others = frozenset({NODE})
        elif service:
            own = tag_of(service)
            others = tags_of_others(traits, own) if own not in traits else others
    if others:
        return Leaving(root, (), reported_by=others)
    below = []
    for item in _ours(listed, root, ledger, attached):
        foreign = item["uuid"] != root and not ledger.is_ours(item["uuid"])
        below.append(
            Leaver(_provider(item), "foreign") if foreign else Leaver.unless_used(item, api)
        )
    lone = sorted(uuid for uuid in ledger.holders if uuid not in listed and ledger.is_ours(uuid))
    beside = [leaver for uuid in lone for leaver in _sharing(uuid, listed, api)]
    traits_left = None
    if attached and root in listed:
        traits, _ = read_part(root, "traits", api)
        own_traits = joined(ledger.holdings_on(root).values()).traits & traits
        traits_left = traits - own_traits if own_traits else None
    return Leaving(root, (*reversed(below), *beside), traits_left)


def _ours(
    listed: Mapping[str, Listed], root: str, ledger: Ledger, attached: bool
) -> Iterator[Listed]:
    """Yield this host's providers, parents first, and other services' providers below them."""
    tree = Snapshot.build(_provider(item) for item in listed.values())
    going: set[str] = set()
    for provider in tree.walk(root) if root in tree else ():
        # The ledger may have a root that this agent reported before it was attached.
        is_ours = not attached if provider.uuid == root else ledger.is_ours(provider.uuid)
        if is_ours or provider.parent_uuid in going:
            going.add(provider.uuid)
            yield listed[provider.uuid]


def _sharing(uuid: str, listed: Mapping[str, Listed], api: API) -> Iterator[Leaver]:
    """Yield a sharing provider; it stays while another host is in one of its aggregates."""
    item = provider_by_uuid(uuid, api)
    if item is None:
        return
    aggregates, _ = read_part(uuid, "aggregates", api)
    if other_hosts(aggregates, listed, api):
        yield Leaver(_provider(item), "shared")
    else:
        yield Leaver.unless_used(item, api)


def _provider(item: Listed) -> Provider:
    return Provider(item["uuid"], item["name"], item["parent_provider_uuid"])
