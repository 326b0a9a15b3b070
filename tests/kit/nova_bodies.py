"""Nova's own five drivers, period by period with this agent; runs in Nova's environment.

    python -m tests.kit.nova_bodies

Each ``update_provider_tree`` is Nova's function, on a class that derives from our base class;
what it asks its hypervisor is answered here.  Prints ``{driver: [report, report]}`` as JSON.
"""

import json
import sys
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from tests.agents import Agent


class Absent(types.ModuleType):
    """Of oslo.vmware or zvmconnector: Nova's modules import them, and what runs here asks nothing of it."""

    __path__: list[str] = []

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {}) if name[0].isupper() else Absent(name)


class FindsAbsent(Loader, MetaPathFinder):
    def find_spec(self, fullname: str, *_: Any) -> ModuleSpec | None:
        return (
            ModuleSpec(fullname, self)
            if fullname.startswith(("oslo_vmware", "zvmconnector"))
            else None
        )

    def create_module(self, spec: ModuleSpec) -> types.ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: types.ModuleType) -> None:
        pass


sys.meta_path.append(FindsAbsent())
from nova import exception  # type: ignore[import-not-found]
from nova.virt import fake  # type: ignore[import-not-found]
from nova.virt.ironic import driver as ironic  # type: ignore[import-not-found]
from nova.virt.libvirt import driver as libvirt  # type: ignore[import-not-found]
from nova.virt.vmwareapi import driver as vmware  # type: ignore[import-not-found]
from nova.virt.zvm import driver as zvm  # type: ignore[import-not-found]
from oslo_config import cfg
from oslo_utils import units

from drivers.api import ComputeDriver, DriverContext, ReshapeFailed, ReshapeNeeded
from tests.stranger import FakePlacement

NODE, UUID = "compute1", "c0ffee00-0000-4000-8000-00000000000a"
PERIODS = 3
# What docs/porting.rst tells an author to change: where the exceptions come from.
exception.ReshapeNeeded, exception.ReshapeFailed = ReshapeNeeded, ReshapeFailed


class OnNova(ComputeDriver):
    """``nova`` is where each method that is not here comes from, unchanged."""

    nova: type

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        vars(self).update(self.asked())

    def __init_subclass__(cls) -> None:
        for kind in reversed(cls.nova.__mro__[:-1]):
            for name, it in vars(kind).items():
                if "provider_tree" in name or name in BODIES:
                    setattr(cls, name, it)

    def get_available_nodes(self) -> list[str]:
        return [NODE]

    def asked(self) -> dict[str, Any]:
        """What the hypervisor says: attributes of the driver."""
        raise NotImplementedError


BODIES = {
    "_ensure_pgpu_providers",
    "_ensure_memory_encryption_providers",
    "_is_reshape_needed_vgpu_on_root",
    "_is_reshape_needed_memory_encryption_on_root",
    "_get_memory_encryption_inventories",
    "_node_from_cache",
    "_node_resource",
}


class Libvirt(OnNova):
    nova = libvirt.LibvirtDriver

    def asked(self) -> dict[str, Any]:
        sev = {"amd_sev": {"total": 4, "supported": True, "traits": ["HW_CPU_X86_AMD_SEV"]}}
        gpu = {"total": 2, "max_unit": 2, "min_unit": 1, "step_size": 1, "reserved": 0}
        host = types.SimpleNamespace(
            get_memory_mb_total=lambda: 4096,
            get_mem_encryption_inventories=lambda: json.loads(json.dumps(sev)),
        )
        return {
            "_host": host,
            "_get_local_gb_info": lambda: {"total": 100},
            "_get_vcpu_available": lambda: {0, 1, 2, 3},
            "_get_pcpu_available": lambda: {4, 5},
            "_get_disk_size_reserved_for_image_cache": lambda: 3,
            "_get_gpu_inventories": lambda: {"pci_0000_84_00_0": {**gpu, "allocation_ratio": 1.0}},
            "_get_resource_class_for_device": lambda _: "VGPU",
            "_update_provider_tree_for_vpmems": lambda *_, **__: None,
            "static_traits": {"HW_CPU_X86_AVX2": True, "COMPUTE_STORAGE_BUS_FDC": False},
        }


class Fake(OnNova):
    nova = fake.FakeDriver

    def asked(self) -> dict[str, Any]:
        return {"vcpus": 8, "memory_mb": 8192, "local_gb": 50}


class Ironic(OnNova):
    nova = ironic.IronicDriver

    def asked(self) -> dict[str, Any]:
        node = types.SimpleNamespace(traits=["CUSTOM_GOLD"], resource_class="bare.metal")
        return {
            "_node_from_cache": lambda _: node,
            "_node_resource": lambda _: {"resource_class": node.resource_class},
            "_node_resources_unavailable": lambda _: False,
            "_node_resources_used": lambda _: True,
        }


class Vmware(OnNova):
    nova = vmware.VMwareVCDriver

    def asked(self) -> dict[str, Any]:
        store = types.SimpleNamespace(capacity=500 * units.Gi, freespace=200 * units.Gi)
        stats = {
            "cpu": {"vcpus": 32, "max_vcpus_per_host": 16},
            "mem": {"total": 65536, "max_mem_mb_per_host": 32768},
        }
        vmware.vm_util.get_stats_from_cluster = lambda *_: stats
        vmware.ds_util.get_available_datastores = lambda *_: [store]
        return {"_session": None, "_cluster_ref": None, "_datastore_regex": None}


class Zvm(OnNova):
    nova = zvm.ZVMDriver

    def asked(self) -> dict[str, Any]:
        said = {"vcpus": 10, "memory_mb": 2048, "disk_total": 40}
        return {"_hypervisor": types.SimpleNamespace(get_available_resource=lambda: said)}


def periods(kind: type[OnNova]) -> list[dict[str, Any]]:
    """What became of each period of a driver."""
    conf = cfg.ConfigOpts()
    conf([], project="nova-bodies", default_config_files=[], default_config_dirs=[])
    driver = kind(DriverContext(NODE, Path(), conf))
    agent = Agent(FakePlacement(), named={kind.__name__: driver}, root=UUID)
    told = []
    for _ in range(PERIODS):
        report = agent.period(60.0)
        complaints = {" ".join(it.identity): str(it) for it in report.conditions}
        told.append({"complaints": complaints, "done": len(report.done)})
    tree = agent.tracker.view.edit()
    providers = [tree.data(uuid) for uuid in tree.get_provider_uuids(NODE)]
    told[-1]["tree"] = {
        one.name: {name: record["total"] for name, record in one.inventory.items()}
        for one in providers
    }
    return told


if __name__ == "__main__":
    cfg.CONF([], project="nova", default_config_files=[], default_config_dirs=[])
    kinds = (Libvirt, Fake, Ironic, Vmware, Zvm)
    sys.stdout.write(json.dumps({kind.__name__.lower(): periods(kind) for kind in kinds}))
