"""Read Placement: one GET for all generations, then only providers whose generation changed.

A generation enters the view only together with the data that was read under it; otherwise
the next write would overwrite another client's change.
"""

import logging
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import chain
from typing import Any
from urllib.parse import quote

from reportclient import forms
from reportclient.errors import NotFound, Rejected, UnknownNames
from reportclient.http import API
from reportclient.model import SHARES_VIA_AGGREGATE, Allocations, Provider, used_providers
from reportclient.plan import SETTERS
from reportclient.reshape import Affected, moved_allocations
from reportclient.snapshot import Snapshot
from reportclient.view import View, still_drained

LOG = logging.getLogger(__name__)

Listed = Mapping[str, Any]
"""An item of ``GET /resource_providers``: uuid, name, generation, parent_provider_uuid, …"""
Traits = Mapping[str, frozenset[str]]
"""Traits by the UUIDs of providers."""
UNRELIABLE = "unreliable"
"""Replaces a ``Last-Modified`` that differs where nothing else does, as one of a gateway's own:
only an audit compares it again."""
URL_BYTES = 4000
"""Maximum length of the list of aggregates in one URL, in bytes; servers accept 8 kB or more."""


def refresh(  # noqa: PLR0913  all but three are keywords
    view: View,
    root: str,
    api: API,
    *,
    everything: bool = False,
    own: Collection[str] = frozenset(),
    at_once: int = 1,
    traits_of: Callable[[Collection[Listed]], Traits] = lambda _: {},
) -> View:
    """Return the view of the tree of ``root`` (UUID) as Placement has it now.

    Sends 1 GET, 1 more if there are aggregates, 1 for each other root in the view that shares
    nothing, and 3 for each provider whose generation changed, or 2 if ``traits_of`` knows its
    traits.

    :param everything: read every provider again, whatever its generation.
    :param own: UUIDs of other providers of the caller.  Sharing providers among them are read
        even if they share no aggregate with the tree any more.  Those that are not in the tree are
        looked up, and what is below them: a move may have succeeded although its reply was lost, or
        have taken along a child that a restore had put below them.
    :param at_once: how many providers are read in parallel.
    :param traits_of: returns traits that it reads, by UUID, of providers that were listed before.
    :raises reportclient.errors.PlacementError: reading failed; no new view is returned.
    """
    path = f"/resource_providers?in_tree={root}"
    reply = api.request("GET", path)
    listed = forms.checked(f"GET {path}", partial(_tree_of, root), reply)
    modified = getattr(reply, "modified", "")
    _check_is_root(listed, root)
    others = view.sharing.difference(own)
    roots = [uuid for uuid in view.snapshot.children(None) if uuid not in {root, *others}]
    restored = _was_restored(view, listed, root, modified)
    known = View() if everything or restored else view
    reading = _Reading(known, api, at_once, traits_of(listed))
    reading.add(listed)
    providers = reading.providers
    aggregates = {uuid for each in providers.values() for uuid in each.aggregates}
    found = {item["uuid"]: item for item in _in_aggregates(aggregates, SHARES_VIA_AGGREGATE, api)}
    sharing = found.keys() - providers.keys()
    reading.add([found[uuid] for uuid in found if uuid in sharing], as_roots=True)
    for uuid in (*roots, *sorted(own)):
        if uuid != root and uuid not in providers:
            tree = subtree(uuid, api)
            if uuid in roots or any(item["parent_provider_uuid"] is None for item in tree[:1]):
                reading.add(tree[:1], as_roots=True)
                reading.add([item for item in tree[1:] if item["uuid"] not in providers])
    # A server whose data is older, or that leaves out a provider, does not show what is drained.
    before, generations = view.generations, reading.generations
    now = dict[str, Provider | None]()
    if everything and not restored:
        now = dict.fromkeys(view.drained)
    now |= {uuid: it for uuid, it in providers.items() if generations[uuid] >= before.get(uuid, 0)}
    drained = still_drained(view.drained, now)
    result = reading.result(path, frozenset(sharing & providers.keys()))
    same = restored and (result.snapshot, result.generations) == (view.snapshot, before)
    if not everything and (same or view.modified == UNRELIABLE):
        modified = UNRELIABLE
    return replace(
        result,
        drained=drained,
        drained_since={uuid: at for uuid, at in view.drained_since.items() if uuid in drained},
        restored=view.restored or restored,
        modified=modified,
    )


def with_unread(view: View, api: API) -> View:
    """Return the view with its ``unread`` providers read; 3 GETs each.

    The part that is to be set is read last: only writes between this GET and its PUT conflict.  If
    others came before, the provider stays ``unread``.  The view is stale if a generation went back.

    :raises reportclient.errors.PlacementError: reading failed; ``NotFound``: it was deleted.
    """
    generations, unread = dict(view.generations), dict[str, str]()
    changed: dict[str, Provider | None] = {}
    for uuid, last in view.unread.items():
        values, found = dict[str, Any](), set[int]()
        for part in sorted(SETTERS, key=last.__eq__):
            values[part], generations[uuid] = read_part(uuid, part, api)
            found.add(generations[uuid])
        if min(found) < view.generations.get(uuid, 0):  # Placement was restored: all may differ
            return view.stale()
        values["inventory"] = values.pop("inventories")
        changed[uuid] = replace(view.snapshot.providers[uuid], **values)
        if len(found) > 1:
            unread[uuid] = last
    snapshot = view.snapshot.with_changes(changed)
    return replace(
        view,
        snapshot=snapshot,
        generations=generations,
        names=view.names.including(filter(None, changed.values())),
        drained=still_drained(view.drained, changed),
        certain=True,
        unread=unread,
        modified="",
    )


def with_root(view: View, uuid: str, api: API) -> View | None:
    """Return the view extended by the root ``uuid``, read without its children; 4 GETs.

    Return ``None`` if there is no such root, or if the view already has its name.
    """
    listed = provider_by_uuid(uuid, api)
    if listed is None or listed["parent_provider_uuid"] is not None:
        return None
    if view.snapshot.named(listed["name"]) or (read := _content(listed, api, {})) is None:
        return None
    provider, generation = read
    return replace(
        view,
        snapshot=Snapshot.build([*view.snapshot.walk(), provider]),
        generations={**view.generations, uuid: generation},
        names=view.names.including([provider]),
    )


def allocations_of(uuid: str, api: API) -> dict[str, Any]:
    """Return the allocations of a consumer as ``GET /allocations/{consumer_uuid}`` does."""
    path = f"/allocations/{uuid}"
    return forms.checked(f"GET {path}", forms.consumer_allocations, api.request("GET", path))


def allocations_on(uuid: str, api: API) -> dict[str, dict[str, int]]:
    """Return the amounts by class that each consumer (UUID) holds on a provider (UUID); 1 GET.

    A provider that is gone has no consumers.
    """
    try:
        held = part_of(f"/resource_providers/{uuid}/allocations", "allocations", api)
    except NotFound:
        return {}
    return {consumer: held[consumer]["resources"] for consumer in sorted(held)}


class LazyAllocations(Mapping[str, dict[str, Any]]):
    """The allocations on a view's tree by consumer UUID, read on first access.

    Values are copies in the format of ``GET /allocations/{consumer_uuid}``; change them freely.
    The first access sends 1 GET for each provider with inventory, and each consumer's value
    1 GET more.  Each raises :class:`reportclient.errors.PlacementError` if reading fails.  One
    thread at a time may use it.
    """

    def __init__(self, view: View, api: API) -> None:
        self._view, self._api = view, api
        self.read: Allocations = {}
        """The allocations as read, of the consumers that were accessed."""

    @cached_property
    def holders(self) -> dict[str, list[str]]:
        """The UUIDs of the consumers by provider UUID."""
        # A provider without inventory has no allocations.
        stocked = (each for each in self._view.snapshot.walk() if each.inventory)
        uuids = [each.uuid for each in stocked if each.uuid not in self._view.sharing]
        return {uuid: [*allocations_on(uuid, self._api)] for uuid in uuids}

    @cached_property
    def _consumers(self) -> dict[str, None]:
        return dict.fromkeys(chain(*self.holders.values()))

    def __getitem__(self, consumer: str) -> dict[str, Any]:
        if consumer not in self:
            raise KeyError(consumer)
        if consumer not in self.read:
            self.read[consumer] = allocations_of(consumer, self._api)
        return deepcopy(self.read[consumer])

    def __contains__(self, consumer: object) -> bool:
        return consumer in self._consumers

    def __iter__(self) -> Iterator[str]:
        return iter(self._consumers)

    def __len__(self) -> int:
        return len(self._consumers)

    def moved(
        self, after: Allocations, old: Snapshot, new: Snapshot
    ) -> tuple[Allocations, frozenset[str]]:
        """Return the allocations of ``after`` that a reshape moves, and what stays in use (UUIDs).

        :raises reportclient.reshape.AllocationsBroken: allocations were lost or invented.
        """
        before = {consumer: self.read[consumer] for consumer in self.read if consumer in after}
        moved = moved_allocations(before, after, Affected.between(old, new))
        holders = self.holders.items()
        others = {uuid for uuid, users in holders if any(user not in after for user in users)}
        return moved, frozenset(others | used_providers(after))


def other_hosts(aggregates: Collection[str], tree: Container[str], api: API) -> list[str]:
    """Return the names of the hosts that use a sharing provider with these aggregates; 1 GET.

    Those are the members that don't share themselves and are not in ``tree`` (UUIDs).
    """
    listed = _in_aggregates(aggregates, f"!{SHARES_VIA_AGGREGATE}", api)
    return sorted({item["name"] for item in listed if item["uuid"] not in tree})


def provider_by_name(name: str, api: API) -> Listed | None:
    """Return the provider with this name, in any case of letters and any tree, or ``None``."""
    # Placement ignores an empty name, and would list all providers.
    listed = _listing(f"name={quote(name)}", api) if name else []
    return next((item for item in listed if item["name"].casefold() == name.casefold()), None)


def provider_by_uuid(uuid: str, api: API) -> Listed | None:
    """Return the provider with this UUID, in any tree, or ``None``."""
    return next((item for item in _listing(f"uuid={uuid}", api) if item["uuid"] == uuid), None)


def providers_with_trait(trait: str, api: API) -> list[Listed]:
    """Return all providers with a trait; 1 GET.  Empty if Placement does not know the trait."""
    try:
        return _listing(f"required={trait}", api)
    except UnknownNames:
        return []


def members_of(root: str, api: API) -> list[Listed]:
    """Return all providers of the tree of ``root`` (UUID), which may be none; 1 GET."""
    path = f"/resource_providers?in_tree={root}"
    return forms.checked(f"GET {path}", partial(_tree_of, root), api.request("GET", path))


def _tree_of(member: str, reply: Any) -> list[Listed]:
    """Return the providers that an answer lists, which have to be the tree of ``member`` (UUID).

    A cache or proxy may answer with another listing: the view would have other hosts' providers.
    """
    listed: list[Listed] = forms.field(
        reply, "resource_providers", forms.PARTS["resource_providers"]
    )
    is_tree = len({item["root_provider_uuid"] for item in listed}) == 1
    if listed and not (is_tree and any(item["uuid"] == member for item in listed)):
        raise ValueError(f".resource_providers is not the tree of {member}")
    return listed


def subtree(uuid: str, api: API) -> list[Listed]:
    """Return a provider (UUID) and all providers below it, parents first; 1 GET."""
    tree = members_of(uuid, api)
    result = [item for item in tree if item["uuid"] == uuid]
    for above in result:  # the list grows in the loop
        result += [item for item in tree if item["parent_provider_uuid"] == above["uuid"]]
    return result


def _listing(query: str, api: API) -> list[Listed]:
    listed: list[Listed] = part_of(f"/resource_providers?{query}", "resource_providers", api)
    return listed


def part_of(path: str, part: str, api: API) -> Any:
    """Return the value under the key ``part`` in the answer to a GET.

    :raises reportclient.errors.WrongForm: the value is missing, or has another form.
    :raises reportclient.errors.PlacementError: the GET failed.
    """
    return _checked_part(path, part, api.request("GET", path))


def _checked_part(path: str, part: str, reply: Any) -> Any:
    check = partial(forms.field, key=part, check=forms.PARTS[part])
    return forms.checked(f"GET {path}", check, reply)


def read_part(uuid: str, part: str, api: API) -> tuple[Any, int]:
    """Return a part of a provider (UUID), such as ``traits``, and its generation; 1 GET.

    :raises reportclient.errors.PlacementError: the GET failed, or its answer has another form.
    """

    def parse(reply: Any) -> tuple[Any, int]:
        value = forms.field(reply, part, forms.PARTS[part])
        generation = forms.field(reply, "resource_provider_generation", forms.count)
        return value if part == "inventories" else frozenset(value), generation

    path = f"/resource_providers/{uuid}/{part}"
    return forms.checked(f"GET {path}", parse, api.request("GET", path))


def _check_is_root(listed: Iterable[Listed], root: str) -> None:
    for item in listed:
        if item["uuid"] == root and item["parent_provider_uuid"] is not None:
            raise Rejected(
                f"provider {item['name']} ({root}) is not a root: it is below "
                f"{item['parent_provider_uuid']} in Placement. Nothing is reported for it: name "
                "the root of its tree instead, or make it a root again"
            )


def _was_restored(view: View, listed: Collection[Listed], root: str, modified: str) -> bool:
    """Return whether Placement's database was restored or replaced: then read everything again.

    Generations only grow, and a known root does not vanish by itself.  After a restore, a provider
    can have the known generation with different data, so all are read again.  If only one child's
    generation decreased, another client deleted and created that child; only it is read again.
    Guests may have started until no generation shows it: then the time of the tree's newest write,
    ``modified``, is another one, which neither a renamed nor a removed provider explains.
    """
    generations = {item["uuid"]: item["generation"] for item in listed}
    older = [uuid for uuid, now in generations.items() if now < view.generations.get(uuid, now)]
    restored = len(older) > 1 or root in older
    lost = root in view.snapshot and root not in generations
    known = view.snapshot.walk(root) if root in view.snapshot else ()
    before = {each.uuid: (each.name, view.generations.get(each.uuid)) for each in known}
    same = before == {item["uuid"]: (item["name"], item["generation"]) for item in listed}
    rewritten = same and bool(modified) and view.modified not in ("", UNRELIABLE, modified)
    if restored:
        LOG.warning(
            "Placement has an older state than before (generations of %s providers decreased): "
            "reading everything again",
            len(older),
        )
    elif lost:
        # Nova deletes it with its compute service; a later step reports an error.
        LOG.info("Root provider %s was deleted in Placement: reading everything again", root)
    elif rewritten:
        LOG.warning("Placement was restored, to generations as before: reading everything again")
    return restored or lost or rewritten


def _in_aggregates(aggregates: Iterable[str], required: str, api: API) -> Iterator[Listed]:
    """Yield the members of any of the aggregates with a trait; several times if in several."""
    rest, size = sorted(aggregates), URL_BYTES // (36 + 1)
    while rest:
        chunk, rest = rest[:size], rest[size:]
        yield from _listing(f"member_of=in:{','.join(chunk)}&required={required}", api)


def has_generation(view: View, item: Listed) -> bool:
    """Return whether the view has this provider with its present generation: nothing has changed.

    Names and aggregates may have, since some of their writes move no generation.
    """
    uuid: str = item["uuid"]
    is_known = uuid in view.snapshot and not (view.certain and uuid in view.unread)
    return is_known and view.generations.get(uuid) == item["generation"]


def _content(item: Listed, api: API, traits: Traits) -> tuple[Provider, int] | None:
    """Return a provider and the generation under which it was read; ``None`` if it was deleted.

    Sends 3 GETs, or 2 if ``traits`` has its traits.
    """
    uuid, name = item["uuid"], item["name"]
    try:
        known = uuid in traits
        parts: list[tuple[Any, int]] = [
            read_part(uuid, "inventories", api),
            (traits[uuid], item["generation"]) if known else read_part(uuid, "traits", api),
            read_part(uuid, "aggregates", api),
        ]
    except NotFound:
        LOG.info("Provider %s (%s) was deleted while it was being read", name, uuid)
        return None
    provider = Provider(uuid, name, item["parent_provider_uuid"], *(value for value, _ in parts))
    # Another client may have written between the GETs: only the oldest generation is safe.
    return provider, min(generation for _, generation in parts)


@dataclass(slots=True)
class _Reading:
    """The providers that are read, by UUID, each with the generation under which it was."""

    view: View
    api: API
    at_once: int
    traits: Traits
    providers: dict[str, Provider] = field(default_factory=dict)
    generations: dict[str, int] = field(default_factory=dict)

    def add(self, listed: Collection[Listed], *, as_roots: bool = False) -> None:
        """Add what was listed; read it if ``view`` lacks its present generation."""
        known = self.view.snapshot.providers
        changed = [item for item in listed if not has_generation(self.view, item)]
        with ThreadPoolExecutor(self.at_once, thread_name_prefix="get") as pool:
            read_all = map if len(changed) < 2 else pool.map
            content = partial(_content, api=self.api, traits=self.traits)
            uuids = [item["uuid"] for item in changed]
            read = dict(zip(uuids, read_all(content, changed), strict=True))
        for item in listed:
            uuid, parent = item["uuid"], None if as_roots else item["parent_provider_uuid"]
            found = read[uuid] if uuid in read else (known[uuid], item["generation"])
            if found is not None:
                provider, self.generations[uuid] = found
                placed = replace(provider, name=item["name"], parent_uuid=parent)
                self.providers[uuid] = provider if placed == provider else placed

    def result(self, path: str, sharing: frozenset[str]) -> View:
        """Return the view of what was listed at ``path``.

        Providers of which an ancestor was not read are left out: it was deleted meanwhile.
        """
        names, snapshot, providers = self.view.names, self.view.snapshot, self.providers
        if providers != snapshot.providers:
            names, readable = names.including(providers.values()), dict(providers)
            above = {uuid: each.parent_uuid for uuid, each in readable.items() if each.parent_uuid}
            while orphans := [uuid for uuid, parent in above.items() if parent not in readable]:
                for uuid in orphans:
                    del readable[uuid], above[uuid]
            # Parents in a circle are no forest.
            snapshot = forms.checked(f"GET {path}", Snapshot.build, readable.values())
        return View(snapshot, self.generations, names, sharing, certain=True)
