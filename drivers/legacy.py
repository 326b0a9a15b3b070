"""Drivers that say what they have by Nova's older methods.

In the order of Nova's specification: ``update_provider_tree`` holds where there is
one; else ``get_inventory``, else ``get_available_resource`` for the root's inventory,
and ``get_traits`` for its traits.  As there, a method that raises NotImplementedError
is as good as none.  All is asked before anything is written.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from drivers import opts
from drivers.errors import DriverError
from drivers.inventory import DISK_GB, MEMORY_MB, VCPU, InventoryPolicy, root_inventory
from reportclient.provider_tree import ProviderTree

OLDER = ("get_inventory", "get_traits", "get_available_resource")
AMOUNTS = {VCPU: "vcpus", MEMORY_MB: "memory_mb", DISK_GB: "local_gb"}
"""Resource classes, and where their totals are in what ``get_available_resource`` returns."""

Records = dict[str, dict[str, Any]]


def older_methods(driver: object) -> tuple[str, ...]:
    """Those that a driver, or the class of one, has."""
    return tuple(name for name in OLDER if callable(getattr(driver, name, None)))


def update_by_older_methods(driver: object, tree: ProviderTree, nodename: str) -> None:
    """Say on ``tree`` what the older methods of ``driver`` tell about ``nodename``.

    :raises DriverError: it has none of them, or what one returned can't be used.
    :raises BaseException: whatever they raise.
    """
    inventory = _inventory(driver, tree, nodename)
    traits = _traits(driver, nodename)
    if inventory is None and traits is None:
        raise DriverError(
            f"{type(driver).__name__} does not say what {nodename} has: define update_provider_tree"
        )
    if inventory is not None:
        tree.update_inventory(nodename, inventory)
    if traits is not None:
        told = _told_before(driver)
        # Until the tree is without them: what was planned before may not have been done.
        gone = (told.get(nodename, frozenset()) - traits) & tree.data(nodename).traits
        tree.remove_traits(nodename, *gone)
        tree.add_traits(nodename, *traits)
        told[nodename] = traits | gone


def policy_from(conf: Any) -> InventoryPolicy:
    """Ratios and reserved amounts by the operator's options; none without a configuration.

    :raises ValueError: naming the option that is wrong.
    """
    if conf is None:
        return InventoryPolicy()
    opts.register(conf, opts.list_opts())
    return opts.inventory_policy(conf)


def policy_of(driver: object) -> InventoryPolicy:
    """:func:`policy_from` a driver's configuration; its constructor may not have called ours."""
    return policy_from(getattr(getattr(driver, "context", None), "conf", None))


def _inventory(driver: object, tree: ProviderTree, nodename: str) -> Records | None:
    policy = policy_of(driver)
    current = tree.data(nodename).inventory
    answer = _asked(driver, "get_inventory", nodename)
    if answer is not _NO_METHOD:
        return _with_policy(_records(answer, nodename), policy, current)
    answer = _asked(driver, "get_available_resource", nodename)
    if answer is _NO_METHOD:
        return None
    amounts = _amounts(answer, nodename)
    if tree.has_sharing_provider(DISK_GB):
        del amounts[DISK_GB]  # it has what the sharing provider reports
    return root_inventory(amounts, policy, current)


def _traits(driver: object, nodename: str) -> frozenset[str] | None:
    answer = _asked(driver, "get_traits", nodename)
    if answer is _NO_METHOD:
        return None
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise DriverError(
            f"get_traits({nodename!r}) returned {answer!r}: a list of names is needed"
        )
    names = list(answer)
    for name in names:
        if not isinstance(name, str):
            raise DriverError(f"get_traits({nodename!r}) returned {name!r}, which is no name")
    return frozenset(names)


_NO_METHOD = object()


def _asked(driver: object, method: str, nodename: str) -> object:
    """Its answer, which may be ``None`` by mistake; ``_NO_METHOD`` is another thing."""
    asked = getattr(driver, method, None)
    if not callable(asked):
        return _NO_METHOD
    try:
        answer: object = asked(nodename)
    except NotImplementedError:
        return _NO_METHOD
    return answer


def _records(answer: object, nodename: str) -> Records:
    said = f"get_inventory({nodename!r}) returned"
    if not isinstance(answer, Mapping):
        raise DriverError(f"{said} {answer!r}: {{resource class: {{'total': …}}}} is needed")
    for resource_class, record in answer.items():
        if not isinstance(record, Mapping):
            raise DriverError(
                f"{said} {record!r} for {resource_class}: no dict like {{'total': 8}}"
            )
    return {name: dict(record) for name, record in answer.items()}


def _with_policy(
    records: Records, policy: InventoryPolicy, current: Mapping[str, Mapping[str, Any]]
) -> Records:
    """Return the inventory, with the operator's options for values that the driver left out."""
    for name in AMOUNTS.keys() & records.keys():
        record = records[name]
        if record.get("allocation_ratio") is None:
            record["allocation_ratio"] = policy.ratios[name].given(current.get(name))
        if record.get("reserved") is None and isinstance(record.get("total"), int):
            record["reserved"] = min(policy.reserved(name), record["total"])
    return records


def _amounts(answer: object, nodename: str) -> dict[str, int]:
    said = f"get_available_resource({nodename!r}) returned"
    if not isinstance(answer, Mapping):
        raise DriverError(
            f"{said} {answer!r}: {{'vcpus': …, 'memory_mb': …, 'local_gb': …}} is needed"
        )
    amounts = {}
    for resource_class, key in AMOUNTS.items():
        if key not in answer:
            raise DriverError(f"{said} no {key!r}: 0 if the node has none")
        value = answer[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
            raise DriverError(f"{said} {key!r}: {value!r}: a number from 0 on is needed")
        amounts[resource_class] = int(value)
    return amounts


def _told_before(driver: object) -> dict[str, frozenset[str]]:
    """Kept with the driver: its constructor may not have called ours."""
    told: dict[str, frozenset[str]] = vars(driver).setdefault("_traits_told", {})
    return told
