"""What Placement has of a tree, and how it is found.  GETs only."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from agent.cli.draw import Beside
from agent.cli.read_ahead import AT_ONCE, ReadAhead
from agent.cli.trouble import Trouble
from reportclient.http import API
from reportclient.model import Provider, canonical_uuid
from reportclient.reader import Listed, provider_named, provider_with, refresh
from reportclient.snapshot import Snapshot
from reportclient.view import View


@dataclass(frozen=True, slots=True)
class Seen:
    """A tree, the sharing providers associated with it, and how much of both is used."""

    snapshot: Snapshot
    root: str
    beside: Beside


def find(name_or_uuid: str, api: API) -> Listed:
    """The provider as Placement lists it; a name that looks like a UUID is found too.

    :raises Trouble: there is none.
    """
    found = _with_uuid(name_or_uuid, api) or provider_named(name_or_uuid, api)
    if found is None:
        raise Trouble(
            f"Placement has no provider with the name or UUID {name_or_uuid}",
            "names have to be given in full; `computectl tree` alone shows this host's",
        )
    return found


def look_at(root: str, api: API, *, marked: str | None = None) -> Seen | None:
    """Everything about the tree of ``root``, or ``None`` if Placement has no such root.

    1 GET, 3 for each provider, 1 for each that has inventory.
    """
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="get") as pool:
        view = refresh(View(), root, ReadAhead(api, pool))
        if root not in view.snapshot:
            return None
        used = dict(pool.map(lambda p: _used(p, view, api), _with_inventory(view)))
    usages = {uuid: amounts for uuid, (amounts, _) in used.items()}
    consumers = {uuid: count for uuid, (_, count) in used.items()}
    return Seen(view.snapshot, root, Beside(usages, consumers, view.generations, marked))


def _with_uuid(text: str, api: API) -> Listed | None:
    try:
        return provider_with(canonical_uuid(text, "provider"), api)
    except ValueError:
        return None


def _with_inventory(view: View) -> Iterator[Provider]:
    return (provider for provider in view.snapshot.providers.values() if provider.inventory)


def _used(provider: Provider, view: View, api: API) -> tuple[str, tuple[dict[str, int], int]]:
    """Amounts by class, and the number of consumers.

    The allocations on a host's provider are few and tell both; on what a whole fleet
    shares they are many, so there only the amounts are asked for.
    """
    path = f"/resource_providers/{provider.uuid}"
    if provider.uuid in view.strangers:
        usages: dict[str, int] = api.request("GET", f"{path}/usages")["usages"]
        return provider.uuid, (usages, 0)
    allocations = api.request("GET", f"{path}/allocations")["allocations"]
    amounts: dict[str, int] = dict.fromkeys(provider.inventory, 0)
    for allocation in allocations.values():
        for resource_class, amount in allocation["resources"].items():
            amounts[resource_class] = amounts.get(resource_class, 0) + amount
    return provider.uuid, (amounts, len(allocations))
