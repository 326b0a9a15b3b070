"""Read what Placement has of hosts, to show it: GETs only, several at a time."""

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from urllib.parse import urlencode

from agent.period.traits import COMPUTE_NODE
from agent.reporting.condition import WRITE, Condition, Severity, ends_drain
from compute_registry.observed_service import Roots
from reportclient.candidates.answers import ProviderSummary, parse_candidates
from reportclient.candidates.asking import disabled_roots
from reportclient.errors import PlacementError
from reportclient.forms import checked
from reportclient.http import API
from reportclient.model import Provider, total_by_class
from reportclient.plain_text import first_few
from reportclient.reader import Listed, Traits, part_of, refresh
from reportclient.snapshot import Snapshot
from reportclient.view import View

AT_ONCE = 8
"""Maximum number of concurrent requests."""
SUMMARY_FROM = 3
"""Number of providers of a tree from which a summary takes fewer calls than reading each."""
TRIED = ("VCPU", "PCPU")
"""Standard classes of which one unit is requested; the next is tried without candidates."""
NEEDS = "1.31"
"""Microversion of ``in_tree``; summaries of all providers of a tree need an older one."""
UNKNOWN = {"": 1}
"""The usage of a provider that no summary has: its allocations have to be read."""
NEARLY_FULL = 0.9
"""The part of the capacity above which usage is shown as a warning."""
PRESENT_FOR = 15.0
"""Seconds for which the list of all roots is used again."""
Usages = Mapping[str, Mapping[str, int]]
SharingProviders = dict[tuple[str, ...], list[Provider]]
"""Sharing providers by the aggregates through which they share."""


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a snapshot's providers, by UUID.

    ``usages``: allocated amounts by resource class, ``None`` if they were not read;
    ``consumers``: the number of consumers; ``marked``: the UUID of the provider to highlight;
    ``draining``: the consumers of classes that are fully reserved; ``since``: when this host's
    agent reserved them, in seconds since the epoch.
    """

    usages: Usages | None = None
    consumers: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    marked: str | None = None
    draining: Mapping[str, Sequence[str]] = field(default_factory=dict)
    since: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ObservedTree:
    """A tree, the sharing providers associated with it, and the usage of both."""

    snapshot: Snapshot
    root: str
    usage: Usage


def read_tree(
    root: str, api: API, *, marked: str | None = None, remembered: View | None = None
) -> ObservedTree | None:
    """Return the tree of ``root``, or ``None`` if Placement has no such root provider.

    1 GET, 2 for each provider, 1 for the usage and traits of all of them (3 for each if they are
    few), and 1 for each provider that is used.  A provider whose generation is still the one in
    ``remembered`` is not read again.  ``marked``: the UUID of the provider to mark in a drawing.

    :raises reportclient.errors.PlacementError: a request failed.
    """
    summaries: dict[str, ProviderSummary] = {}

    def traits_of(listed: Collection[Listed]) -> Traits:
        if len(listed) >= SUMMARY_FROM:
            summaries.update(_summaries_of(root, api))
        members = summaries.keys() & {item["uuid"] for item in listed}
        return {uuid: summaries[uuid].traits for uuid in members}

    view = refresh(remembered or View(), root, api, at_once=AT_ONCE, traits_of=traits_of)
    if root not in view.snapshot:
        return None
    usages: dict[str, Mapping[str, int]] = {uuid: each.used for uuid, each in summaries.items()}
    stocked = (provider for provider in view.snapshot.walk() if provider.inventory)
    used = [each for each in stocked if any(usages.get(each.uuid, UNKNOWN).values())]
    consumers, draining = dict[str, int](), dict[str, list[str]]()
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="get") as pool:
        counted = pool.map(lambda provider: _usage_of(provider, view, api), used)
        for provider, (amounts, count, users) in zip(used, counted, strict=True):
            usages[provider.uuid], consumers[provider.uuid] = amounts, count
            draining |= {provider.uuid: users} if users else {}
    known = Usage(usages, consumers, view.generations, marked, draining, view.drained_since)
    return ObservedTree(view.snapshot, root, known)


def sharing_providers(snapshot: Snapshot, root: str) -> SharingProviders:
    """Return the roots without children that share with the tree of ``root``, by name."""
    own = frozenset().union(*(provider.aggregates for provider in snapshot.walk(root)))
    sharing: SharingProviders = {}
    for provider in children_by_name(snapshot, None):
        common = tuple(sorted(provider.aggregates & own))
        if provider.uuid != root and provider.shares and common:
            sharing.setdefault(common, []).append(provider)
    return sharing


def drains(
    tree: Snapshot, users: Mapping[str, Sequence[str]], since: Mapping[str, float | None]
) -> Iterator[Condition]:
    """Yield what drains in a tree: ``users`` has its consumers by provider UUID."""
    for uuid, consumers in users.items():
        text, name = f"draining: in use by {first_few(consumers)}", tree.providers[uuid].name
        step, began = ends_drain(uuid), since.get(uuid)
        yield Condition(text, step, name, Severity.INFO, WRITE, uuid, began)


def children_by_name(snapshot: Snapshot, uuid: str | None) -> list[Provider]:
    """Return the children of a provider, or the roots, sorted by name."""
    children = (snapshot.providers[child] for child in snapshot.children(uuid))
    return sorted(children, key=lambda provider: provider.name)


def _usage_of(provider: Provider, view: View, api: API) -> tuple[dict[str, int], int, list[str]]:
    """Return the amounts by class, the number of consumers, and those of fully reserved classes.

    The allocations of a host's provider are few, and contain both.  Those of a sharing provider
    are many: only its amounts are read, and its consumers count as 0.
    """
    path = f"/resource_providers/{provider.uuid}"
    if provider.uuid in view.sharing:
        usages: dict[str, int] = part_of(f"{path}/usages", "usages", api)
        return usages, 0, []
    allocations = part_of(f"{path}/allocations", "allocations", api)
    held = total_by_class(each["resources"] for each in allocations.values())
    amounts = dict.fromkeys(provider.inventory, 0) | held
    full = {name for name, it in provider.inventory.items() if it.reserved == it.total}
    users = sorted(user for user, held in allocations.items() if full & held["resources"].keys())
    return amounts, len(allocations), users


def _summaries_of(root: str, api: API) -> Mapping[str, ProviderSummary]:
    """Return the summaries of the tree of ``root`` by UUID; empty if Placement has none."""
    for resource_class in TRIED:
        path = f"/allocation_candidates?resources={resource_class}:1&in_tree={root}&limit=1"
        try:
            reply = api.request("GET", path, needs=NEEDS)
            candidates = checked(f"GET {path}", parse_candidates, reply)
        except PlacementError:
            return {}  # an older Placement, or not permitted: the parts are read one by one
        if candidates.provider_summaries:
            return candidates.provider_summaries
    return {}


@dataclass(slots=True)
class PlacementRoots:
    """The roots of hosts, for who reads them again and again."""

    _present: Mapping[str, str] = field(default_factory=dict)
    _present_until: float = 0.0

    def read(self, api: API, only: str = "") -> Roots:
        """Return the roots: one call, and another if the list of all is too old.

        ``only``: the root (UUID) that the caller needs; then the list of all is not read.

        :raises reportclient.errors.PlacementError: Placement can't be read.
        """
        disabled = disabled_roots(api)
        if only:
            return Roots(disabled, compute_nodes(api, uuid=only))
        if time.monotonic() > self._present_until:
            self._present = compute_nodes(api)
            self._present_until = time.monotonic() + PRESENT_FOR
        return Roots(disabled, self._present)


def compute_nodes(api: API, **only: str) -> dict[str, str]:
    """Return the names of the root providers with COMPUTE_NODE, by UUID; one call.

    ``only``: ``uuid`` or ``name`` of the only one that the caller needs.
    """
    path = f"/resource_providers?{urlencode({'required': COMPUTE_NODE, **only})}"
    return {each["uuid"]: each["name"] for each in part_of(path, "resource_providers", api)}
