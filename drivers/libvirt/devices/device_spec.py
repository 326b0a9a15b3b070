"""Pure: ``[pci] device_spec``, the PCI devices that guests can have, in Nova's syntax.

    {"vendor_id": "8086", "product_id": "154c", "address": "0000:81:*.*"}
    {"address": {"domain": ".*", "bus": "81", "slot": "0[2-4]", "function": ".*"}}
    {"address": "0000:81:00.0", "resource_class": "CUSTOM_FAST_NIC", "traits": "blue,CUSTOM_X"}
    [{"devname": "eth0", "physical_network": "net1"}, ...]

A value is a JSON object or a list of objects; the first entry that matches a device is used.  The
address of a PF matches its VFs too, and so does the name of its network device.
"""

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import os_resource_classes
import os_traits

from drivers.libvirt.devices.pci_devices import PciDevice

OPTION = "[pci] device_spec"
ANY = "*"
LONGEST_NAME = 255
"""Characters that Placement accepts for a resource class or trait."""

_ADDRESS_PARTS = (("domain", 4, 0xFFFF), ("bus", 2, 0xFF), ("slot", 2, 0x1F), ("function", 1, 7))
_FLAGS = ("managed", "one_time_use", "remote_managed", "live_migratable", "trusted")
_TEXTS = ("vendor_id", "product_id", "devname", "resource_class", "traits", "physical_network")
KEYS = ("address", *_TEXTS, *_FLAGS)
_TRUE = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE = frozenset({"0", "f", "false", "off", "n", "no"})
_ADDRESS = re.compile(r"([^:]+):([^:]+):([^:]+)\.([^.:]+)")


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """An entry of ``[pci] device_spec``.

    ``text`` is the entry itself; ``address`` has a pattern each for domain, bus, slot and function;
    ``single``: it can match one address only.
    """

    vendor: str | None = None
    product: str | None = None
    address: tuple[re.Pattern[str], ...] | None = None
    single: bool = False
    devname: str | None = None
    resource_class: str | None = None
    traits: frozenset[str] = frozenset()
    physical_network: str | None = None
    one_time_use: bool = False
    remote_managed: bool = False
    text: str = field(default="", compare=False)

    def matches(self, device: PciDevice, networks: Mapping[str, str]) -> bool:
        """Return whether the entry matches a device.

        ``networks`` maps names of network devices to PCI addresses.
        """
        if self.vendor not in (None, device.vendor) or self.product not in (None, device.product):
            return False
        if self.devname is not None:
            return networks.get(self.devname) in (device.address, device.physical or "")
        if self.address is None or self._is_at(device.address):
            return True
        return self.single and device.physical is not None and self._is_at(device.physical)

    def _is_at(self, address: str) -> bool:
        parts = _ADDRESS.fullmatch(address)
        patterns = self.address or ()
        return parts is not None and all(
            pattern.match(part) for pattern, part in zip(patterns, parts.groups(), strict=True)
        )


def device_specs(values: Iterable[str]) -> tuple[DeviceSpec, ...]:
    """Return all entries of all values, in order.

    :raises ValueError: naming the option, the value and what is wrong with it.
    """
    specs: list[DeviceSpec] = []
    for value in values:
        try:
            entries = json.loads(value)
        except (ValueError, RecursionError) as err:
            raise ValueError(f"{OPTION} = {value!r} is not JSON: {err}") from None
        try:
            specs += map(_device_spec, entries if isinstance(entries, list) else [entries])
        except ValueError as err:
            raise ValueError(f"{OPTION} = {value!r}: {err}") from None
    return tuple(specs)


def _device_spec(entry: Any) -> DeviceSpec:
    if not isinstance(entry, dict):
        raise ValueError(f'{json.dumps(entry)} is not an object, like {{"vendor_id": "8086"}}')
    unknown = sorted(entry.keys() - set(KEYS))
    if unknown:
        raise ValueError(f"unknown key {unknown[0]!r} (known keys: {', '.join(sorted(KEYS))})")
    texts: dict[str, str | None] = {}
    for key in _TEXTS:
        text = entry.get(key)
        if text is not None and not isinstance(text, str):
            raise ValueError(f"{key} has to be text, not {json.dumps(text)}")
        texts[key] = (text or "").strip() or None
    flags: dict[str, bool] = {}
    for key in _FLAGS:
        flag = str(entry.get(key, "no")).strip().lower()
        if flag not in _TRUE | _FALSE:
            raise ValueError(f"{key} has to be true or false, not {json.dumps(entry[key])}")
        flags[key] = flag in _TRUE
    if texts["devname"] and entry.get("address"):
        raise ValueError("devname and address exclude each other")
    numbers = {
        key: _hexadecimal(key, text, 4, 0xFFFF)
        for key in ("vendor_id", "product_id")
        if (text := texts[key]) is not None and text != ANY
    }
    address, single = _address(entry.get("address"))
    return DeviceSpec(
        vendor=numbers.get("vendor_id"),
        product=numbers.get("product_id"),
        address=address,
        single=single,
        devname=texts["devname"],
        resource_class=_resource_class(texts["resource_class"]),
        traits=_traits(texts, flags),
        physical_network=texts["physical_network"],
        one_time_use=flags["one_time_use"],
        remote_managed=flags["remote_managed"],
        text=json.dumps(entry),
    )


def _hexadecimal(key: str, text: str, digits: int, highest: int) -> str:
    plain = text.lower().removeprefix("0x")
    if not re.fullmatch(r"[0-9a-f]{1,8}", plain) or int(plain, 16) > highest:
        raise ValueError(f"{key} = {text!r} is not a hexadecimal number up to {highest:x}")
    return f"{int(plain, 16):0{digits}x}"


def _address(value: Any) -> tuple[tuple[re.Pattern[str], ...] | None, bool]:
    """Return the patterns of an address, and whether only one address matches."""
    if not value:
        return None, False
    if isinstance(value, dict):
        return _expressions(value), False
    if isinstance(value, str):
        return _globs(value.strip())
    raise ValueError(f"address has to be text or an object, not {json.dumps(value)}")


def _expressions(value: Mapping[str, Any]) -> tuple[re.Pattern[str], ...]:
    """Compile a regular expression for each part; a missing part matches anything."""
    names = [name for name, _, _ in _ADDRESS_PARTS]
    unknown = sorted(value.keys() - set(names))
    if unknown:
        raise ValueError(
            f"unknown part {unknown[0]!r} of an address (known parts: {', '.join(names)})"
        )
    patterns = []
    for name in names:
        text = value.get(name, ".*")
        if not isinstance(text, str):
            raise ValueError(f"{name} of the address has to be text, not {json.dumps(text)}")
        try:
            patterns.append(re.compile(text))
        except (re.error, OverflowError, RecursionError) as err:
            raise ValueError(f"{name} = {text!r} is not a regular expression: {err}") from None
    return tuple(patterns)


def _globs(text: str) -> tuple[tuple[re.Pattern[str], ...], bool]:
    """Parse ``[[[domain:]bus:]slot][.function]``; a missing part, or ``*``, matches anything."""
    front, _, function = text.partition(".")
    parts = front.split(":")
    if len(parts) > 3:
        raise ValueError(f"address = {text!r} is not like 0000:81:00.0 or *:81:*.*")
    padded = [*[ANY] * (3 - len(parts)), *parts, function]
    globs = [part.strip() or ANY for part in padded]
    patterns = []
    for glob, (name, digits, highest) in zip(globs, _ADDRESS_PARTS, strict=True):
        if glob == ANY:
            patterns.append(re.compile(""))
        else:
            number = _hexadecimal(f"{name} of the address", glob, digits, highest)
            patterns.append(re.compile(rf"{number}\Z"))
    return tuple(patterns), ANY not in globs


def _resource_class(text: str | None) -> str | None:
    if text is None:
        return None
    name = text.upper()
    standard = name in os_resource_classes.STANDARDS
    if not standard and not re.fullmatch(r"CUSTOM_[A-Z0-9_]+", name):
        name = os_resource_classes.normalize_name(text)
    return _checked_name(name, text, "resource_class")


def _traits(texts: Mapping[str, str | None], flags: Mapping[str, bool]) -> frozenset[str]:
    names = (name.strip() for name in (texts["traits"] or "").split(","))
    traits = {_trait(name) for name in names if name}
    if flags["one_time_use"]:
        traits.add(os_traits.HW_PCI_ONE_TIME_USE)
    if flags["live_migratable"]:
        traits.add(os_traits.HW_PCI_LIVE_MIGRATABLE)
    if texts["physical_network"]:
        traits.add(_trait(f"CUSTOM_PHYSNET_{texts['physical_network']}"))
    return frozenset(traits)


def _trait(text: str) -> str:
    standard, _ = os_traits.check_traits([text])
    if standard:
        return text
    plain = text.upper().removeprefix(os_traits.CUSTOM_NAMESPACE)
    return _checked_name(os_traits.normalize_name(plain), text, "traits")


def _checked_name(name: str, text: str, key: str) -> str:
    if len(name) > LONGEST_NAME:
        raise ValueError(f"{key}: {text!r} is longer than the {LONGEST_NAME} characters of a name")
    if name.strip("_") == "CUSTOM":
        raise ValueError(f"{key}: {text!r} is not a name that Placement accepts")
    return name
