"""Pure: a CPU, or a device, has one class at a time.

When an operator gives it another one, the old class has to be gone from Placement before the
new one is offered, or two guests could get the same thing.  What nobody uses is gone after one
period; while guests use the old class the agent drains it.  Meanwhile it is told what waits.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from drivers.inventory import PCPU, VCPU, CurrentInventory
from drivers.libvirt.tree.reported import Records


def waits_for(old: Iterable[str], new: str) -> str:
    """In words."""
    return f"still has {', '.join(old)}: {new} is reported once no guest uses that"


def cpus_once(
    desired: Mapping[str, Records], observed: Mapping[str, CurrentInventory]
) -> tuple[dict[str, Records], dict[str, str]]:
    """What the root and the cells report, less CPUs that are inventory of the other class still;
    and what waits for that, by provider.

    Both by provider name; ``observed`` is what Placement has.  Of CPUs that were in both classes
    as many as were there stay.
    """
    found, notes = dict(desired), dict[str, str]()
    for old, new in ((VCPU, PCPU), (PCPU, VCPU)):
        for name, records in desired.items():
            held = _held(old, name, desired, observed)
            if new not in records or not held:
                continue
            most = max(_total(observed.get(name, {}).get(new, {})), records[new]["total"] - held)
            if most < records[new]["total"]:
                found[name] = at_most(records, new, most)
                notes[name] = waits_for([old], new)
    return found, notes


def _held(
    old: str, name: str, desired: Mapping[str, Records], observed: Mapping[str, CurrentInventory]
) -> int:
    """CPUs that this provider gives up as ``old`` ones, or, if all do, that anyone has so."""
    if old in desired[name]:
        return 0
    if old in observed.get(name, {}):
        return _total(observed[name][old])
    if any(old in records for records in desired.values()):
        return 0
    return sum(_total(current.get(old, {})) for current in observed.values())


def at_most(records: Records, name: str, most: int) -> Records:
    """With no more than ``most`` of a class."""
    rest = {key: record for key, record in records.items() if key != name}
    if not most:
        return rest
    record = records[name]
    less = {"total": most, "max_unit": most, "reserved": min(record["reserved"], most)}
    return {**rest, name: {**record, **less}}


def _total(record: Mapping[str, Any]) -> int:
    return int(record.get("total") or 0)
