"""Allocations that no inventory covers; 1 GET for each provider."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Executor
from itertools import islice
from typing import Any, TypeVar

from agent.cli.reading.retirement import SHOWN
from agent.cli.shared.screen import counted
from agent.cli.shared.usage import amounts_of, capacity
from agent.told.conditions import Condition, Severity
from reportclient.errors import NotFound
from reportclient.http import API
from reportclient.model import Inventory
from reportclient.reader import Listed, part_of

PAGE = 256
"""Providers whose answers are in memory at the same time."""

T = TypeVar("T")
Judged = tuple[Listed, list[Condition]]
InventoryOf = Callable[[Listed], Mapping[str, Inventory]]


def judged(
    listed: Iterable[Listed], api: API, pool: Executor, inventory: InventoryOf
) -> Iterator[Judged]:
    """Each provider with what is wrong with it; ``inventory`` is asked for those that are used."""
    for page in pages(listed):
        yield from pool.map(lambda item: (item, list(_conditions(item, api, inventory))), page)


def pages(items: Iterable[T], size: int = PAGE) -> Iterator[list[T]]:
    """So many at a time."""
    waiting = iter(items)
    while page := list(islice(waiting, size)):
        yield page


def _conditions(item: Listed, api: API, inventory: InventoryOf) -> Iterator[Condition]:
    path = f"/resource_providers/{item['uuid']}/allocations"
    try:
        allocations = part_of(path, "allocations", api)
        if allocations:
            yield from _beyond(item["name"], allocations, inventory(item))
    except NotFound:
        return  # it went meanwhile


def _beyond(
    name: str, allocations: Mapping[str, Any], inventories: Mapping[str, Inventory]
) -> Iterator[Condition]:
    for resource_class, used in sorted(amounts_of(allocations).items()):
        users = [one for one in sorted(allocations) if resource_class in _of(allocations[one])]
        record = inventories.get(resource_class)
        if record is None:
            text = f"{used} {resource_class} allocated, and no inventory of it"
            step = f"see to {_named(users)}: openstack resource provider allocation show"
            yield Condition(text, name, next_step=step)
            continue
        has = capacity(record)
        if used > has and record.reserved == record.total:
            text = f"{resource_class} is drained, and {used} of it are still allocated"
            step = f"it ends with {_named(users)}"
            yield Condition(text, name, Severity.INFO, step)
        elif used > has:
            text = f"{used} {resource_class} allocated, and only {has} to give"
            step = f"move guests away ({_named(users)}), or give it more than it has now"
            yield Condition(text, name, Severity.WARNING, step)


def _of(allocation: Mapping[str, Any]) -> Mapping[str, int]:
    resources: Mapping[str, int] = allocation["resources"]
    return resources


def _named(users: list[str]) -> str:
    more = f" and {len(users) - SHOWN} more" if len(users) > SHOWN else ""
    return f"{counted(len(users), 'consumer')}: {', '.join(users[:SHOWN])}{more}"
