"""DeviceDriver: a driver that lists what a node has; what it does not list is removed."""

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from reprlib import repr as shortened
from typing import Any

from drivers.driver import ComputeDriver
from drivers.errors import DriverError, DriverNotReady
from reportclient.model import SHARES_VIA_AGGREGATE as SHARES
from reportclient.model import (
    SILICON,
    Allocations,
    canonical_uuid,
    provider_name,
    read_aggregates,
    read_traits,
)
from reportclient.plain_text import error_text
from reportclient.provider_tree import ProviderTree, own_uuid

SHARED = "5d3a3f0a-7d44-4a6b-9f0e-0b6f2c1f7a11"
"""The namespace for UUIDs of sharing providers that several nodes list by the same name."""


@dataclass(frozen=True)
class Device:
    """A provider below a node, or the node itself if ``name`` is the node's name.

    ``name`` is unique on the node, in lower case too, and identifies the device; the provider's
    name is ``<node>_<name>``, and changes with the node's.  Begin it with the driver's name: two
    drivers that list ``gpu0`` share one provider.  ``inventory`` is by resource class: a total, or
    a record such as ``{"total": 8, "max_unit": 2}``; ``reserved`` is 0 unless given.  ``parent`` is
    the name of another device; without it the parent is the node.  The whole inventory of a device
    that is not ``healthy`` is reserved, and the operator sees ``reason``.

    Devices with the same ``silicon``, such as ``card0``, are parts of one thing, and are listed by
    one source: while guests hold a part that is not listed any more, or is listed with less, no
    part gets more inventory.  The trait ``CUSTOM_SILICON_<silicon>`` marks them.

    A device with a ``uuid`` is the same one under another name or parent, with its guests, such as
    a card whose address has changed.  A ``sharing`` device is a root of its own, ``name``, for all
    hosts that list it; the node gets its ``aggregates`` too.
    """

    name: str
    inventory: Mapping[str, int | Mapping[str, Any]] = field(default_factory=dict)
    traits: Iterable[str] = ()
    aggregates: Iterable[str] = ()
    parent: str | None = None
    healthy: bool = True
    reason: str = ""
    uuid: str | None = None
    sharing: bool = False
    silicon: str | None = None

    def __post_init__(self) -> None:
        """Check the fields, so that an error has the line that made the device, and copy them.

        :raises ValueError: a field is wrong; the text names it.
        """
        name = provider_name(self.name)
        if not isinstance(self.inventory, Mapping):
            text = f"inventory of device {name} has to be a dict like {{'VGPU': 4}}"
            raise ValueError(f"{text}, not {shortened(self.inventory)}")
        traits, aggregates = _copied(self.traits), _copied(self.aggregates)
        read_traits(traits, name)
        read_aggregates(aggregates, name)
        if self.sharing and (self.parent or not aggregates):
            raise ValueError(f"sharing device {name} needs aggregates, and has no parent")
        vars(self).update(
            inventory=dict(self.inventory),
            traits=traits,
            aggregates=aggregates,
            uuid=self.uuid and canonical_uuid(self.uuid, name),
        )

    def records(self) -> dict[str, Any]:
        """Return the inventory records by resource class."""
        records: dict[str, Any] = {}
        for name, amount in self.inventory.items():
            record = {"total": amount} if isinstance(amount, int) else amount
            if isinstance(record, Mapping):  # the tree refuses others by name
                reserved = record.get("reserved", 0) if self.healthy else record.get("total")
                record = {**record, "reserved": reserved}
            records[name] = record
        return records


def _copied(values: Any) -> Any:
    """Return a copy that can be read often; of the author's type, with which tests compare it."""
    lasts = isinstance(values, str | list | tuple | set | frozenset)
    return tuple(values) if isinstance(values, Iterable) and not lasts else copy(values)


Source = Iterable[Device] | Callable[[], Iterable[Device]]
"""The devices of one source, or the method that lists them."""


class DeviceDriver(ComputeDriver):
    """Base class of drivers that list devices."""

    @abstractmethod
    def devices(self, node: str) -> Iterable[Device] | Mapping[str, Source]:
        """Return or yield all devices of a node; a device that is not listed is removed.

        Sources that can fail independently are a mapping, ``{source: method}``; a method takes no
        arguments, and returns or yields the source's devices.  If one raises DriverNotReady or an
        OSError, its devices stay as they are, and :meth:`degraded` names it.  A source whose
        devices have parents in another one comes after it.

        An exception means that nothing was listed, also if some devices were yielded before.  A
        source that lists no device any more is asked again in the next period before its last
        devices are removed: see :meth:`ProviderTree.set_own_children`.

        :raises DriverNotReady: the backend can't answer now; an OSError counts as this one.
        """

    def get_available_nodes(self) -> Sequence[str]:
        """Return the name of this host; a driver of many nodes overrides this method."""
        return [self.context.host]

    def degraded(self, node: str) -> Mapping[str, str]:
        """Return the unhealthy devices and the sources that failed, with the reasons."""
        problems: Mapping[str, Mapping[str, str]] = getattr(self, "_problems", {})
        return problems.get(node, {})

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,
    ) -> None:
        """Write the listed devices to the tree, and remove those that are not listed any more.

        :raises DriverNotReady: no source could be read.
        :raises DriverError: ``devices`` returned something else than devices, or one twice.
        """
        try:
            answer = self.devices(nodename)
        except OSError as err:
            raise DriverNotReady(error_text(err)) from err
        sources = answer if isinstance(answer, Mapping) else {"": answer}
        problems: dict[str, str] = {}
        names: dict[str, str] = {}  # of all sources, by name and by UUID
        failed: list[str] = []
        for source, listed in sources.items():
            try:
                with provider_tree.source(source):  # unanswered after an error
                    devices = _read(listed)
                    _refuse_twice(nodename, devices, names)
                    problems |= _write(provider_tree, nodename, devices)
            except (DriverNotReady, OSError) as err:
                failed.append(error_text(err))
                problems[source] = failed[-1]
                continue
            for device in devices:
                name = _name(nodename, device.name, device.sharing)
                if not device.healthy:
                    problems[name] = f"{device.reason or 'unhealthy'}: reserved completely"
        if failed and len(failed) == len(sources):
            raise DriverNotReady("; ".join(failed))
        if not failed and "" not in sources:  # what it reported before it named its sources
            root = provider_tree.data(nodename).uuid
            earlier = filter(provider_tree.provider, provider_tree.get_own_uuids())
            unsourced = [each for each in map(provider_tree.data, earlier) if each.name in names]
            parents = {each.name: each.parent_uuid for each in unsourced if each.uuid != root}
            provider_tree.set_own_children(parents, sharing=True)
        vars(self).setdefault("_problems", {})[nodename] = problems  # __init__ may be another


def _read(listed: object) -> list[Device]:
    """Return the devices of one source, read to the end.  :raises DriverError: they are wrong."""
    if callable(listed):
        listed = listed()
    if not isinstance(listed, Iterable):
        text = "devices() has to return a list of drivers.api.Device"
        raise DriverError(f"{text}, not {shortened(listed)}")
    devices: dict[str, Device] = {}
    for device in listed:
        if not isinstance(device, Device):
            raise DriverError(f"devices() lists {device!r}: a drivers.api.Device is needed")
        if device.name in devices:
            raise DriverError(f"devices() lists {device.name!r} twice")
        devices[device.name] = device
    return list(devices.values())


def _refuse_twice(node: str, devices: Sequence[Device], names: dict[str, str]) -> None:
    """Add the devices of a source to ``names``.

    :raises DriverError: another device has the name or the UUID, be it of another source.
    """
    for it in devices:
        name = _name(node, it.name, it.sharing)
        if name == node:  # each source may add to it
            continue
        if name in names:
            raise DriverError(f"devices() lists {it.name!r} twice")
        if it.uuid and (other := names.setdefault(it.uuid, name)) != name:
            raise DriverError(f"devices() lists {other} and {name} with one UUID, {it.uuid}")
        names[name] = name


def _write(tree: ProviderTree, node: str, devices: Sequence[Device]) -> dict[str, str]:
    """Make what a source has in the tree equal to its devices; return what waits, by provider."""
    root, own = tree.data(node).uuid, tree.get_own_uuids()
    if any(it.name == node and (it.uuid or it.sharing) for it in devices):
        raise DriverError(f"{node} is the node: get_nodenames_by_uuid() has its UUID")
    named = {_name(node, it.name, it.sharing): it for it in devices if it.name != node}
    waiting = _place(tree, node, named, own)
    parents = {
        name: None if it.sharing else _name(node, it.parent) if it.parent else node
        for name, it in named.items()
    }
    tree.set_own_children(parents, sharing=True)
    shared = [uuid for it in devices if it.sharing for uuid in it.aggregates]
    # If the node is not listed, nothing on it is of this source.
    named[node] = next((it for it in devices if it.name == node), Device(node))
    for name, device in named.items():
        # An inventory of the root that the driver never had may be nova-compute's.
        if device.inventory or name != node or root in own:
            tree.update_inventory(name, device.records())
        traits = [*device.traits, *([SHARES] if device.sharing else []), *_silicon(device)]
        tree.set_own_traits(name, traits)
        tree.set_own_aggregates(name, [*device.aggregates, *(shared if name == node else [])])
    held = _hold_silicon(tree, named, own) if any(it.silicon for it in devices) else {}
    return waiting | held


def _silicon(device: Device) -> list[str]:
    """Return the trait of a device's silicon, if it has one."""
    name = re.sub("[^A-Z0-9_]", "_", str(device.silicon).upper())
    return [] if device.silicon is None else [SILICON + name]


def _hold_silicon(
    tree: ProviderTree, devices: Mapping[str, Device], own: Collection[str]
) -> dict[str, str]:
    """Offer no more of a silicon of which Placement has a part that is not listed, or with less.

    Return what waits, by provider.
    """
    held: dict[str, str] = {}
    for before in filter(None, map(tree.base.get, sorted(own))):
        now = tree.provider(before.uuid) or replace(before, inventory={})
        for name, record in before.inventory.items():
            if name not in now.inventory or record.total > now.inventory[name].total:
                traits = before.traits | now.traits
                held |= {trait: before.name for trait in traits if trait.startswith(SILICON)}
    waiting: dict[str, str] = {}
    for name, device in devices.items():
        for silicon in held.keys() & _silicon(device):
            part = tree.base.get(tree.data(name).uuid)
            records = {key: tree.records(name)[key] for key in device.inventory}
            limited = {
                key: replace(it, total=min(it.total, most), reserved=min(it.reserved or 0, most))
                for key, it in records.items()
                if part and key in part.inventory and (most := part.inventory[key].total)
            }
            if limited != records:
                tree.update_inventory(name, limited)
                waiting[name] = (
                    f"waits for {held[silicon]}, a part of the same silicon {device.silicon} that "
                    "is not listed any more, or with less: offered once no guest holds that"
                )
    return waiting


def _place(
    tree: ProviderTree, node: str, devices: dict[str, Device], own: Collection[str]
) -> dict[str, str]:
    """Give the devices with a UUID their names, and create those and the sharing ones that are new.

    ``devices`` are by the name of the provider.  One whose name another provider has keeps its own,
    or is left out with those below it; return why, by name.
    """
    uuids = {
        name: it.uuid or own_uuid(SHARED, name)
        for name, it in devices.items()
        if it.uuid or it.sharing
    }
    waiting = _free_names(tree, devices, uuids, own)
    for name, device in list(devices.items()):
        above = device.parent and _name(node, device.parent)
        if above in waiting and above not in devices:
            waiting[name] = f"waits for {above}"
            del devices[name]
    for name in [name for name in uuids if name not in waiting]:
        if tree.provider(uuids[name]) is not None:
            tree.rename(uuids[name], name)
        elif devices[name].sharing:
            tree.new_root(name, uuids[name])
        else:  # its parent may not be there yet
            tree.new_child(name, node, uuids[name])
    return waiting


def _free_names(
    tree: ProviderTree, devices: dict[str, Device], uuids: Mapping[str, str], own: Collection[str]
) -> dict[str, str]:
    """Rename what is ``own`` and has the name of a device; take out of ``devices`` what waits."""
    waiting: dict[str, str] = {}
    for name, uuid in uuids.items():
        if not tree.exists(name) or (holder := tree.data(name).uuid) == uuid:
            continue
        if holder in own:
            tree.rename(holder, holder)
            continue
        step = f"if that is a leftover: openstack resource provider delete {holder}"
        waiting[name] = f"waits, since provider {holder} has its name; {step}"
        device, before = devices.pop(name), tree.provider(uuid)
        if before is not None:
            if before.name in devices:  # it gives its name to that one
                tree.rename(uuid, uuid)
            devices[tree.data(uuid).name] = device
    return waiting


def _name(node: str, device: str, sharing: bool = False) -> str:
    """Return the name of a device's provider; provider names are unique in a cloud."""
    return device if sharing or device == node else f"{node}_{device}"
