"""Reading Placement: one GET for all generations, then only what moved.

A generation is adopted only together with what was read under it; otherwise the
next write would wipe out a change of somebody else's.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import quote

from reportclient.errors import NotFound, Rejected, UnknownNames, Unreachable
from reportclient.http import API
from reportclient.model import SHARES_VIA_AGGREGATE, Inventory, Provider
from reportclient.snapshot import Snapshot
from reportclient.view import View

LOG = logging.getLogger(__name__)

URL_BYTES = 4000
"""How long the list of aggregates in one URL may become; servers take 8 kB and more."""

Listed = Mapping[str, Any]
"""A provider as Placement lists it: uuid, name, generation, parent_provider_uuid, …"""


@dataclass(frozen=True, slots=True)
class _Read:
    """A provider and the generation under which all of it was read."""

    provider: Provider
    generation: int


def refresh(
    view: View,
    root: str,
    api: API,
    *,
    everything: bool = False,
    ours: Collection[str] = frozenset(),
) -> View:
    """The view of the tree of ``root`` as Placement has it now.

    1 GET when nothing moved (2 where there are aggregates, and one for each other root
    that a driver made and that shares nothing), 3 more for each provider whose
    generation did, or for every one if ``everything`` is asked for.  ``ours`` are other
    roots that are looked at also when they don't share with this one any more.  Those that
    were empty, and are not in the tree any more, may be outside of it: nobody may have heard
    that this was done.

    :raises reportclient.errors.PlacementError: nothing is adopted then.
    """
    listed = _listing(f"in_tree={root}", api)
    _refuse_no_root(listed, root)
    others = view.sharing.difference(ours)
    lone = [uuid for uuid in view.snapshot.children(None) if uuid not in {root, *others}]
    emptied = [
        uuid
        for uuid in view.snapshot.providers.keys() & ours
        if not view.snapshot.providers[uuid].inventory
    ]
    if everything or _was_set_back(view, listed, root):
        view = View(drained=view.drained)
    members = list(_read_all(view, listed, api, lone=False))
    sharing = list(_read_all(view, _sharing(members, api), api, lone=True))
    seen = {read.provider.uuid for read in (*members, *sharing)}
    looked_for = [uuid for uuid in dict.fromkeys((*lone, *sorted(emptied))) if uuid not in seen]
    there = filter(None, (provider_by_uuid(uuid, api) for uuid in looked_for))
    alone = (one for one in there if one["parent_provider_uuid"] is None or one["uuid"] in lone)
    return _view_of(view, [*members, *_read_all(view, alone, api, lone=True)], sharing)


def with_lone_root(view: View, uuid: str, api: API) -> View | None:
    """The view with a lone root that was not in it, as Placement has it; 4 GETs.

    ``None`` if there is none, or if the provider is part of another tree.
    """
    listed = provider_by_uuid(uuid, api)
    if listed is None or listed["parent_provider_uuid"] is not None:
        return None
    read = _content(listed, api)
    if read is None or view.snapshot.named(read.provider.name) is not None:
        return None
    return replace(
        view,
        snapshot=Snapshot.build([*view.snapshot.walk(), read.provider]),
        generations={**view.generations, uuid: read.generation},
        names=view.names.including([read.provider]),
    )


def allocations_of(consumer: str, api: API) -> dict[str, Any]:
    """Return a consumer's allocations, in the shape of ``GET /allocations/{uuid}``."""
    return _reply(f"/allocations/{consumer}", "allocations", api)


def consumers_of(uuid: str, api: API) -> list[str]:
    """UUIDs of the consumers that hold allocations on a provider."""
    return sorted(part_of(f"/resource_providers/{uuid}/allocations", "allocations", api))


def provider_by_name(name: str, api: API) -> Listed | None:
    """The provider that has this name, in whatever tree, or ``None``."""
    # An empty one is no condition to Placement: it would list all that there are.
    return _first(f"name={quote(name)}", api) if name else None


def provider_by_uuid(uuid: str, api: API) -> Listed | None:
    """The provider that has this UUID, in whatever tree, or ``None``."""
    return _first(f"uuid={uuid}", api)


def providers_with_trait(trait: str, api: API) -> list[Listed]:
    """All providers that carry a trait, in one GET; none if Placement does not know it."""
    try:
        return _listing(f"required={trait}", api)
    except (UnknownNames, Rejected):
        return []


def members_of(root: str, api: API) -> list[Listed]:
    """All providers of the tree of ``root``; none if there is no such tree."""
    return _listing(f"in_tree={root}", api)


def traits_of(uuid: str, api: API) -> frozenset[str]:
    """The traits of one provider, as Placement has them now."""
    return frozenset(part_of(f"/resource_providers/{uuid}/traits", "traits", api))


def _first(query: str, api: API) -> Listed | None:
    listed = _listing(query, api)
    return listed[0] if listed else None


def _listing(query: str, api: API) -> list[Listed]:
    path = f"/resource_providers?{query}"
    listed = part_of(path, "resource_providers", api)
    if not isinstance(listed, list) or not all(map(_is_listed, listed)):
        raise _not_placements(path)
    return listed


def _is_listed(item: Any) -> bool:
    """Whether it has what is relied upon."""
    return (
        isinstance(item, dict)
        and isinstance(item.get("uuid"), str)
        and isinstance(item.get("name"), str)
        and isinstance(item.get("generation"), int)
        and isinstance(item.get("parent_provider_uuid", ...), str | None)
    )


def _not_placements(path: str) -> Unreachable:
    return Unreachable(f"GET {path}: the answer is not in Placement's words")


def part_of(path: str, part: str, api: API) -> Any:
    """Return the value of this name in the answer to a GET.

    :raises reportclient.errors.Unreachable: nothing, so it is somebody else's answer.
    """
    return _reply(path, part, api)[part]


def _reply(path: str, part: str, api: API) -> dict[str, Any]:
    """The answer to a GET that has to have this part; a proxy's JSON has not."""
    reply = api.request("GET", path)
    if part not in reply:
        raise _not_placements(path)
    return reply


def _refuse_no_root(listed: Iterable[Listed], root: str) -> None:
    for item in listed:
        if item["uuid"] == root and item["parent_provider_uuid"] is not None:
            raise Rejected(
                f"provider {item['name']} ({root}) is this host's root, but in Placement it is "
                f"below {item['parent_provider_uuid']}: make it a root again there, or stop this "
                "agent; until then nothing is reported"
            )


def _was_set_back(view: View, listed: Iterable[Listed], root: str) -> bool:
    """Whether this is an older state of Placement, or another one: then nothing is trusted.

    Generations only ever grow, and a root that we know does not vanish by itself.  A
    database restored from a backup betrays itself here, before equal generations of
    different content can be taken for the same.  One child alone was made anew by
    somebody, and is read as any other whose generation moved.
    """
    generations = {item["uuid"]: item["generation"] for item in listed}
    older = [uuid for uuid, now in generations.items() if now < view.generations.get(uuid, now)]
    lost = root in view.snapshot and root not in generations
    if older == [child for child in older[:1] if child != root]:
        older = []
    if older:
        LOG.warning(
            "Placement has an older state than it had (generations of %s providers went back): "
            "everything is read again",
            len(older),
        )
    elif lost:
        # Its owner may have deleted it, as Nova does with a service: what is wrong is told later.
        LOG.info("The root provider %s is gone: everything is read again", root)
    return bool(older or lost)


def _sharing(members: Iterable[_Read], api: API) -> Iterator[Listed]:
    ours = {read.provider.uuid for read in members}
    aggregates = sorted({agg for read in members for agg in read.provider.aggregates})
    seen: set[str] = set()
    for chunk in _chunks(aggregates):
        query = f"member_of=in:{','.join(chunk)}&required={SHARES_VIA_AGGREGATE}"
        for item in _listing(query, api):
            if item["uuid"] not in ours and item["uuid"] not in seen:
                seen.add(item["uuid"])
                yield item


def _chunks(aggregates: list[str]) -> Iterator[list[str]]:
    size = URL_BYTES // (36 + 1)
    return (aggregates[start : start + size] for start in range(0, len(aggregates), size))


def _read_all(view: View, listed: Iterable[Listed], api: API, *, lone: bool) -> Iterator[_Read]:
    for item in listed:
        parent = None if lone else item["parent_provider_uuid"]
        read = _unchanged(view, item) or _content(item, api)
        if read is not None:
            placed = replace(read.provider, name=item["name"], parent_uuid=parent)
            yield _Read(placed if placed != read.provider else read.provider, read.generation)


def _unchanged(view: View, item: Listed) -> _Read | None:
    before = view.snapshot.get(item["uuid"])
    generation: int = item["generation"]
    if before is None or view.generations.get(item["uuid"]) != generation:
        return None
    return _Read(before, generation)


def _content(item: Listed, api: API) -> _Read | None:
    """Three GETs; ``None`` if the provider vanished in between."""
    path = f"/resource_providers/{item['uuid']}"
    try:
        replies = [_reply(f"{path}/{part}", part, api) for part in _PARTS]
    except NotFound:
        LOG.info("Provider %s (%s) vanished while it was read", item["name"], item["uuid"])
        return None
    try:
        return _parsed(item, *replies)
    except (AttributeError, LookupError, TypeError, ValueError) as err:
        raise _not_placements(path) from err


def _parsed(item: Listed, inventories: Listed, traits: Listed, aggregates: Listed) -> _Read:
    provider = Provider(
        item["uuid"],
        item["name"],
        item["parent_provider_uuid"],
        {name: Inventory.from_placement(row) for name, row in inventories["inventories"].items()},
        frozenset(traits["traits"]),
        frozenset(aggregates["aggregates"]),
    )
    replies = (inventories, traits, aggregates)
    # Somebody may have written between the three: the oldest is the one that holds for all.
    return _Read(provider, min(int(reply["resource_provider_generation"]) for reply in replies))


_PARTS = ("inventories", "traits", "aggregates")


def _view_of(view: View, members: list[_Read], sharing: list[_Read]) -> View:
    reads = [*members, *sharing]
    providers = {read.provider.uuid: read.provider for read in reads}
    same = providers == view.snapshot.providers
    return View(
        snapshot=view.snapshot if same else Snapshot.build(_attached(providers)),
        generations={read.provider.uuid: read.generation for read in reads},
        names=view.names if same else view.names.including(providers.values()),
        sharing=frozenset(read.provider.uuid for read in sharing),
        drained={uuid: before for uuid, before in view.drained.items() if uuid in providers},
        certain=True,
    )


def _attached(providers: Mapping[str, Provider]) -> Iterator[Provider]:
    """Without those whose parent vanished while we read; the next verification sees the rest."""
    for provider in providers.values():
        above: Provider | None = provider
        while above is not None and above.parent_uuid is not None:
            above = providers.get(above.parent_uuid)
        if above is not None:
            yield provider
