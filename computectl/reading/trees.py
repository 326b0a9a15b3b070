"""Find and read trees in Placement, and names of providers.  GETs only."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from computectl.shared.errors import CommandError
from reportclient.candidates import AllocationCandidates, AllocationRequest
from reportclient.http import API
from reportclient.model import Inventory, Provider, canonical_uuid
from reportclient.observed_tree import AT_ONCE, ObservedTree
from reportclient.plain_text import plain
from reportclient.reader import Listed, part_of, provider_by_name, provider_by_uuid
from reportclient.snapshot import Snapshot
from reportclient.usage import Usage


@dataclass(frozen=True, slots=True)
class Fleet:
    """The extent of ``computectl tree --all``: ``of`` trees match, ``calls`` calls were made.

    ``dear``: number of trees left out because of the limit of calls; ``gone``: number of trees
    deleted meanwhile; ``hosts_only``: only trees of hosts were searched, since there are many;
    ``limit``: the most trees to read.
    """

    of: int
    calls: int
    dear: int = 0
    gone: int = 0
    hosts_only: bool = False
    limit: int = 0

    def left_out(self) -> Iterator[str]:
        """Yield sentences about the trees that were left out."""
        beyond = self.of - self.limit
        if beyond > 0:
            yield (
                f"{beyond} of {self.of} trees are left out by --limit {self.limit}; "
                "a higher limit or a pattern of names shows others"
            )
        if self.dear:
            yield f"{self.dear} trees would take too many calls; --most-calls allows more"
        if self.hosts_only:
            yield "only trees of hosts (COMPUTE_NODE) were searched: too many other trees"


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees that a command shows; ``owner``: traits that mark roots of this project's agents.

    ``fleet`` is there if all trees were asked for.
    """

    seen: tuple[ObservedTree, ...]
    fleet: Fleet | None = None
    owner: frozenset[str] = frozenset()

    def together(self) -> tuple[Snapshot, Usage]:
        """Return all trees as one snapshot; a lone root beside one tree may belong to another."""
        members: dict[str, Provider] = {}
        lone: dict[str, Provider] = {}
        for seen in self.seen:
            for provider in seen.snapshot.walk():
                own = seen.snapshot.root_of(provider.uuid) == seen.root
                (members if own else lone).setdefault(provider.uuid, provider)
        return Snapshot.build({**lone, **members}.values()), self._usage()

    def _usage(self) -> Usage:
        usages: dict[str, Mapping[str, int]] = {}
        consumers: dict[str, int] = {}
        generations: dict[str, int] = {}
        for seen in self.seen:
            usages |= seen.usage.usages or {}
            consumers |= seen.usage.consumers
            generations |= seen.usage.generations
        marked = next((tree.usage.marked for tree in self.seen if tree.usage.marked), None)
        return Usage(usages, consumers, generations, marked)


def inventory_of(uuid: str, api: API) -> dict[str, Inventory]:
    """Return an inventory by resource class; 1 GET."""
    records = part_of(f"/resource_providers/{uuid}/inventories", "inventories", api)
    return {name: Inventory.from_dict(record) for name, record in records.items()}


def find_provider(name_or_uuid: str, api: API) -> Listed:
    """Return the provider with a name or UUID, as Placement lists it.

    :raises CommandError: Placement has no such provider.
    """
    provider = _with_uuid(name_or_uuid, api) or provider_by_name(name_or_uuid, api)
    if provider is None:
        raise CommandError(
            f"Placement has no provider with the name or UUID {name_or_uuid or repr('')}",
            "names have to be given in full; `computectl tree` alone shows this host's",
        )
    return provider


def _with_uuid(text: str, api: API) -> Listed | None:
    try:
        return provider_by_uuid(canonical_uuid(text, "provider"), api)
    except ValueError:
        return None


ONE_BY_ONE = 25
"""Trees that are listed one by one; for more, all providers are listed in one call."""


def names_in(trees: Iterable[str], api: API) -> dict[str, str]:
    """Return the names by UUID of all providers of these roots' trees; a GET each, or one GET."""
    paths = [f"/resource_providers?in_tree={root}" for root in dict.fromkeys(trees)]
    if len(paths) > ONE_BY_ONE:
        paths = ["/resource_providers"]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="get") as pool:
        read = pool.map(lambda path: part_of(path, "resource_providers", api), paths)
        listed = [item for tree in read for item in tree]
    return {item["uuid"]: item["name"] for item in listed}


def trees_of(answer: AllocationCandidates, hosts: Iterable[str]) -> list[str]:
    """Return the roots of all providers in these hosts' candidates, sharing ones included."""
    wanted = set(hosts)
    summaries = answer.provider_summaries
    roots = [
        summaries[uuid].root_uuid
        for request in answer.allocation_requests
        if answer.host(request) in wanted
        for uuid in (*request.allocations, *_meeting(request))
        if uuid in summaries
    ]
    return list(dict.fromkeys(roots))


def _meeting(request: AllocationRequest) -> Iterator[str]:
    return (uuid for uuids in (request.mappings or {}).values() for uuid in uuids)


def name_of(uuid: str, names: Mapping[str, str]) -> str:
    """Return the printable name of a provider; its UUID if it was deleted meanwhile."""
    return plain(names.get(uuid, uuid))
