"""Find and read trees in Placement, and names of providers.  GETs only."""

import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import chain
from typing import Any

from compute_registry.observed_placement import AT_ONCE, ObservedTree, Usage, read_tree
from computectl.shared.errors import PROBLEMS, CommandError
from reportclient.candidates import AllocationCandidates
from reportclient.http import API
from reportclient.model import Provider, parse_uuid
from reportclient.plain_text import natural_key, plain
from reportclient.reader import (
    Listed,
    members_of,
    part_of,
    provider_by_name,
    provider_by_uuid,
    providers_with_trait,
)
from reportclient.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Fleet:
    """The calls of ``computectl tree --all``, and sentences on the trees that it omitted."""

    calls: int
    omitted: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Trees:
    """Trees that a command shows; ``fleet`` is there if all trees were asked for."""

    observed: tuple[ObservedTree, ...]
    fleet: Fleet | None = None

    def together(self) -> tuple[Snapshot, Usage]:
        """Return all trees as one snapshot; a root beside one tree may belong to another."""
        members: dict[str, Provider] = {}
        others: dict[str, Provider] = {}
        usages: dict[str, Mapping[str, int]] = {}
        consumers: dict[str, int] = {}
        generations: dict[str, int] = {}
        for observed in self.observed:
            for provider in observed.snapshot.walk():
                own = observed.snapshot.root_of(provider.uuid) == observed.root
                (members if own else others).setdefault(provider.uuid, provider)
            usages |= observed.usage.usages or {}
            consumers |= observed.usage.consumers
            generations |= observed.usage.generations
        marked = next((tree.usage.marked for tree in self.observed if tree.usage.marked), None)
        snapshot = Snapshot.build({**others, **members}.values())
        return snapshot, Usage(usages, consumers, generations, marked)


def find_provider(name_or_uuid: str, api: API) -> Listed:
    """Return the provider with a name or UUID, as Placement lists it.

    :raises CommandError: Placement has no such provider.
    """
    uuid = parse_uuid(name_or_uuid)
    provider = provider_by_uuid(uuid, api) if uuid else None
    provider = provider or provider_by_name(name_or_uuid, api)
    if provider is None:
        raise CommandError(
            f"Placement has no provider with the name or UUID {name_or_uuid or repr('')}",
            "names have to be given in full; `computectl tree` alone shows this host's",
        )
    return provider


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
        for uuid in (*request.allocations, *chain(*request.mappings.values()))
        if uuid in summaries
    ]
    return list(dict.fromkeys(roots))


def name_of(uuid: str, names: Mapping[str, str]) -> str:
    """Return the printable name of a provider; its UUID if it was deleted meanwhile."""
    return plain(names.get(uuid, uuid))


TREES, CALLS = 20, 5000
"""Default limits of trees (a screen or two) and of calls (about a minute)."""
MANY_HOSTS = 500
"""Up to this number of hosts, all providers are listed in one call, 0.8 kB each."""
FIXED, FOR_EACH = 3, 3
"""Estimated calls for a tree, and for each of its providers."""


def read_trees(
    api: API,
    pattern: str | None = None,
    limit: int = TREES,
    most_calls: int = CALLS,
    progress: Callable[[str], None] = lambda _: None,
) -> Trees:
    """Read the first ``limit`` trees by name, each with its sharing providers.

    ``pattern``: only trees whose root has a matching name.

    Takes 2 GETs to list the roots, 1 for each selected tree, and the calls of ``read_tree`` for
    as many of them as ``most_calls`` allows.

    :raises CommandError: no root matches.
    """
    once = CachedReads(api)
    hosts = providers_with_trait("COMPUTE_NODE", once)
    many = len(hosts) > MANY_HOSTS
    matching = [
        root
        for root in filter(is_root, hosts if many else all_providers(once))
        if pattern is None or pattern == root["uuid"] or fnmatchcase(root["name"], pattern)
    ]
    if not matching and pattern is None:
        raise CommandError("Placement has no providers", "start compute-agent", PROBLEMS)
    if not matching:
        raise CommandError(
            f"no root provider has a name that matches {pattern}",
            "`computectl tree --all` shows the names of roots",
        )
    matching.sort(key=lambda root: natural_key(root["name"]))
    wanted = matching[:limit]
    chosen = _affordable(wanted, most_calls, once)
    observed = []
    for number, root in enumerate(chosen, 1):
        progress(f"tree {number} of {len(chosen)}, {once.calls} calls so far")
        tree = read_tree(root["uuid"], once)
        observed += [tree] if tree is not None else []
    progress("")
    omitted = []
    if beyond := len(matching) - len(wanted):
        omitted.append(
            f"{beyond} of {len(matching)} trees are left out by --limit {limit}; "
            "a higher limit or a pattern of names shows others"
        )
    if dear := len(wanted) - len(chosen):
        omitted.append(f"{dear} trees would take too many calls; --most-calls allows more")
    if many:
        omitted.append("only trees of hosts (COMPUTE_NODE) were searched: too many other trees")
    return Trees(tuple(observed), Fleet(once.calls, tuple(omitted)))


def _affordable(wanted: list[Listed], most_calls: int, once: "CachedReads") -> list[Listed]:
    """Return the first trees that the limit of calls suffices for, at least one."""
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="get") as pool:
        sizes = list(pool.map(lambda root: len(members_of(root["uuid"], once)), wanted))
    spent = once.calls
    chosen: list[Listed] = []
    for root, size in zip(wanted, sizes, strict=True):
        spent += FIXED + FOR_EACH * size
        if chosen and spent > most_calls:
            break
        chosen.append(root)
    return chosen


def all_providers(api: API) -> list[Listed]:
    """Return all providers; one GET, 0.8 kB each."""
    listed: list[Listed] = part_of("/resource_providers", "resource_providers", api)
    return listed


def is_root(provider: Listed) -> bool:
    """Whether a provider is a root."""
    return bool(provider["uuid"] == provider["root_provider_uuid"])


class CachedReads:
    """An API for GETs that caches answers and errors; ``calls`` counts the requests sent."""

    def __init__(self, api: API) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._answers: dict[str, Future[dict[str, Any]]] = {}

    @property
    def calls(self) -> int:
        """Return the number of requests sent."""
        return len(self._answers)

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        with self._lock:
            mine = path not in self._answers
            answer = self._answers.setdefault(path, Future())
        if mine:
            try:
                answer.set_result(self._api.request(method, path, json=json, needs=needs))
            except BaseException as err:  # noqa: BLE001  passed on to the waiting threads
                answer.set_exception(err)
        return answer.result()
