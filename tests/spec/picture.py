"""The picture of the specification, built in a real Placement with plain API calls.

::

         CN1                 SHR_ROOT               CN2
        /   \\       agg1    /   /\\     agg1        /   \\
   NUMA1     NUMA2--------SSP--/--\\-----------NUMA1     NUMA2
  /     \\   /    \\            /    \\         /     \\   /    \\
PF1    PF2 PF3   PF4--------BW1   BW2------PF1    PF2 PF3   PF4
                     agg2             agg3
"""

import uuid
from typing import Any

from tests.agents import ROOT
from tests.servers.placement import RealPlacement

SHARES = "MISC_SHARES_VIA_AGGREGATE"
AGG = {number: f"a9900000-0000-4000-8000-00000000000{number}" for number in (1, 2, 3)}
HOSTS = ("CN1", "CN2")
PARENTS = {"NUMA1": "", "NUMA2": "", "PF1": "NUMA1", "PF2": "NUMA1", "PF3": "NUMA2", "PF4": "NUMA2"}
STORAGE = {"SHR_ROOT": None, "SSP": "SHR_ROOT", "BW1": "SHR_ROOT", "BW2": "SHR_ROOT"}
MEMBERS = {
    "SSP": (1,),
    "CN1_NUMA2": (1,),
    "CN2_NUMA1": (1,),
    "BW1": (2,),
    "CN1_PF4": (2,),
    "BW2": (3,),
    "CN2_PF1": (3,),
}
SHARED = {
    "SSP": {"DISK_GB": {"total": 10000}},
    "BW1": {"NET_BW_EGR_KILOBIT_PER_SEC": {"total": 10}},
    "BW2": {"NET_BW_EGR_KILOBIT_PER_SEC": {"total": 20}},
}
OF_CN1 = {"CN1", *(f"CN1_{name}" for name in PARENTS)}
STRANGERS = {*STORAGE, "CN2", *(f"CN2_{name}" for name in PARENTS)}


def uuid_of(name: str) -> str:
    return ROOT if name == "CN1" else str(uuid.uuid5(uuid.NAMESPACE_DNS, name))


def build(placement: RealPlacement) -> None:
    """All of it; the names of NUMA nodes and PFs carry their host's, as names are unique."""
    for name, parent in providers().items():
        body = {
            "name": name,
            "uuid": uuid_of(name),
            "parent_provider_uuid": uuid_of(parent) if parent else None,
        }
        placement.request("POST", "/resource_providers", json=body)
    stranger = placement.stranger
    for name, inventory in SHARED.items():
        stranger.set_traits(uuid_of(name), [SHARES])
        stranger.set_inventory(uuid_of(name), inventory)
    for name, numbers in MEMBERS.items():
        stranger.set_aggregates(uuid_of(name), [AGG[number] for number in numbers])


def providers() -> dict[str, str | None]:
    """Parents by name, parents first."""
    found: dict[str, str | None] = dict(STORAGE)
    for host in HOSTS:
        found[host] = None
        for name, parent in PARENTS.items():
            found[f"{host}_{name}"] = f"{host}_{parent}" if parent else host
    return found


def state(placement: RealPlacement, names: set[str]) -> dict[str, Any]:
    """Everything of these providers, generations included."""
    stranger = placement.stranger
    return {
        name: (
            stranger.provider(uuid_of(name)),
            stranger.inventory(uuid_of(name)),
            stranger.traits(uuid_of(name)),
            stranger.aggregates(uuid_of(name)),
        )
        for name in sorted(names)
    }
