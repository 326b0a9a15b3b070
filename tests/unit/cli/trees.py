"""Snapshots to draw."""

from uuid import NAMESPACE_DNS, uuid5

from reportclient.model import SHARES_VIA_AGGREGATE, Inventory, Provider
from reportclient.snapshot import Snapshot

AGGREGATE = "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01"


def uuid_of(name: str) -> str:
    return str(uuid5(NAMESPACE_DNS, name))


def provider(name: str, parent: str | None = None, **parts) -> Provider:
    parts = {key: frozenset(v) if key != "inventory" else v for key, v in parts.items()}
    return Provider(uuid_of(name), name, uuid_of(parent) if parent else None, **parts)


def numa_host(name: str = "host1", pfs: int = 4) -> Snapshot:
    """Two NUMA nodes, network cards on each, storage that others share."""
    cpu = [f"HW_CPU_X86_{flag}" for flag in ("AVX", "AVX2", "AESNI", "VMX", "SSE41", "SSE42")]
    made = [provider(name, traits=["COMPUTE_NODE", *cpu], aggregates=[AGGREGATE])]
    for n in range(2):
        inventory = {
            "VCPU": Inventory(32, 2, allocation_ratio=4.0),
            "MEMORY_MB": Inventory(131072, 2048),
        }
        made.append(provider(f"{name}_numa{n}", name, inventory=inventory, traits=["HW_NUMA_ROOT"]))
        for f in range(pfs // 2):
            cards = {"SRIOV_NET_VF": Inventory(8)}
            made.append(
                provider(
                    f"{name}_numa{n}_pf{f}",
                    f"{name}_numa{n}",
                    inventory=cards,
                    traits=["CUSTOM_PHYSNET_PUBLIC"],
                )
            )
    disk = {"DISK_GB": Inventory(20480, 512)}
    made.append(
        provider("nfs", inventory=disk, traits=[SHARES_VIA_AGGREGATE], aggregates=[AGGREGATE])
    )
    return Snapshot.build(made)
