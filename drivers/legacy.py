"""Drivers with Nova's older methods in place of ``update_provider_tree``.

As in Nova, they are only used without ``update_provider_tree``: ``get_inventory``, or else
``get_available_resource``, returns the root's inventory, and ``get_traits`` its traits.  A method
that raises NotImplementedError counts as missing.  All methods are called before the tree is
edited.
"""

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any

from drivers import opts
from drivers.abilities import LEGACY
from drivers.errors import DriverError
from drivers.inventory import DISK_GB, MEMORY_MB, VCPU, InventoryPolicy, root_inventory
from reportclient.provider_tree import ProviderTree

AMOUNTS = {VCPU: "vcpus", MEMORY_MB: "memory_mb", DISK_GB: "local_gb"}
"""Resource classes, and the keys of their totals in the dict of ``get_available_resource``."""

Records = dict[str, dict[str, Any]]


def older_methods(driver: object) -> tuple[str, ...]:
    """Return the names of the older methods that a driver, or a driver's class, has."""
    return tuple(name for name in LEGACY if callable(getattr(driver, name, None)))


def update_by_older_methods(driver: object, tree: ProviderTree, nodename: str) -> None:
    """Write the results of the older methods of ``driver`` for ``nodename`` to ``tree``.

    :raises DriverError: the driver has none of them, or a result can't be used.
    :raises BaseException: the driver's exception.
    """
    inventory = _inventory(driver, tree, nodename)
    traits = _traits(driver, nodename)
    if inventory is None and traits is None:
        raise DriverError(
            f"{type(driver).__name__} reports nothing for {nodename}: define update_provider_tree"
        )
    if inventory is not None:
        tree.update_inventory(nodename, inventory)
    if traits is not None:
        tree.set_own_traits(nodename, traits)


def policy_from(conf: Any) -> InventoryPolicy:
    """Return the inventory policy of ``conf``; the defaults if ``conf`` is ``None``.

    :raises ValueError: an option is wrong; the message names it.
    """
    if conf is None:
        return InventoryPolicy()
    opts.register(conf, opts.list_opts())
    return opts.inventory_policy(conf)


def policy_of(driver: object) -> InventoryPolicy:
    """Return the inventory policy of a driver's configuration.

    A driver without ``context`` gets the defaults: its constructor need not call the base class's.
    """
    return policy_from(getattr(getattr(driver, "context", None), "conf", None))


def _inventory(driver: object, tree: ProviderTree, nodename: str) -> Records | None:
    policy = policy_of(driver)
    current = tree.data(nodename).inventory
    answer = _call_if_implemented(driver, "get_inventory", nodename)
    if answer is not _NO_METHOD:
        return _with_policy(_records(answer, nodename), policy, current)
    answer = _call_if_implemented(driver, "get_available_resource", nodename)
    if answer is _NO_METHOD:
        return None
    amounts = _amounts(answer, nodename)
    if tree.has_sharing_provider(DISK_GB):
        del amounts[DISK_GB]  # the sharing provider reports the disk space
    return root_inventory(amounts, policy, current)


def _traits(driver: object, nodename: str) -> frozenset[str] | None:
    answer = _call_if_implemented(driver, "get_traits", nodename)
    if answer is _NO_METHOD:
        return None
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise DriverError(
            f"get_traits({nodename!r}) returned {answer!r}: a list of names is needed"
        )
    names = list(answer)
    for name in names:
        if not isinstance(name, str):
            raise DriverError(f"get_traits({nodename!r}) returned {name!r}, which is not a name")
    return frozenset(names)


_NO_METHOD = object()


def _call_if_implemented(driver: object, method: str, nodename: str) -> object:
    """Return the method's result, or ``_NO_METHOD`` if the driver does not implement it."""
    function = getattr(driver, method, None)
    if not callable(function):
        return _NO_METHOD
    try:
        answer: object = function(nodename)
    except NotImplementedError:
        return _NO_METHOD
    return answer


def _records(answer: object, nodename: str) -> Records:
    call = f"get_inventory({nodename!r}) returned"
    if not isinstance(answer, Mapping):
        raise DriverError(f"{call} {answer!r}: {{resource class: {{'total': …}}}} is needed")
    for resource_class, record in answer.items():
        if not isinstance(record, Mapping):
            raise DriverError(
                f"{call} {record!r} for {resource_class}: not a dict like {{'total': 8}}"
            )
    return {name: dict(record) for name, record in answer.items()}


def _with_policy(
    records: Records, policy: InventoryPolicy, current: Mapping[str, Mapping[str, Any]]
) -> Records:
    """Fill in the ratios and reserved amounts that the driver left out, from the options."""
    for name in AMOUNTS.keys() & records.keys():
        record = records[name]
        if record.get("allocation_ratio") is None:
            record["allocation_ratio"] = policy.ratios[name].effective(current.get(name))
        if record.get("reserved") is None and isinstance(record.get("total"), int):
            record["reserved"] = min(policy.reserved(name), record["total"])
    return records


def _amounts(answer: object, nodename: str) -> dict[str, int]:
    call = f"get_available_resource({nodename!r}) returned"
    if not isinstance(answer, Mapping):
        raise DriverError(
            f"{call} {answer!r}: {{'vcpus': …, 'memory_mb': …, 'local_gb': …}} is needed"
        )
    amounts = {}
    for resource_class, key in AMOUNTS.items():
        if key not in answer:
            raise DriverError(f"{call} no {key!r}: 0 if the node has none")
        value = answer[key]
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < inf:
            raise DriverError(f"{call} {key!r}: {value!r}: a number from 0 on is needed")
        amounts[resource_class] = int(value)
    return amounts
