"""Nova's own tracker code on one root, for ``test_attach_nova``; runs in Nova's environment.

    python -m tests.integration.nova_beside URL

Reads a line of JSON from standard input for each period (``traits`` of the root, its ``children``,
whether it reports its ``pci`` device, seconds ``later``) and answers with the ``error`` that ended it.
See ``benchmarks/reference.py`` for what stands in for Nova's database.
"""

import json
import sys
from typing import Any

from nova import conf, context, objects  # type: ignore[import-not-found]
from nova.compute import resource_tracker  # type: ignore[import-not-found]
from nova.pci import manager as pci  # type: ignore[import-not-found]
from nova.scheduler.client import report  # type: ignore[import-not-found]
from nova.virt import driver  # type: ignore[import-not-found]

from benchmarks.reference import begin

ROOT, NODE = "c0ffee00-0000-4000-8000-00000000000a", "compute1"


class NovaDriver(driver.ComputeDriver):  # type: ignore[misc]
    """A driver in Nova's style: its inventory, its traits, its children, and no others."""

    wish: dict[str, Any]

    def update_provider_tree(
        self, provider_tree: Any, nodename: str, allocations: Any = None
    ) -> None:
        """What the line says."""
        provider_tree.update_inventory(nodename, {"VCPU": {"total": self.wish["vcpus"]}})
        provider_tree.add_traits(nodename, *self.wish["traits"])
        names = {f"{nodename}_pci_{number}" for number in range(self.wish["children"])}
        for uuid in provider_tree.get_provider_uuids(nodename)[1:]:
            name = provider_tree.data(uuid).name
            if name.startswith(f"{nodename}_pci_") and name not in names:
                provider_tree.remove(uuid)
        for name in sorted(names):
            if not provider_tree.exists(name):
                provider_tree.new_child(name, nodename)
            provider_tree.update_inventory(name, {"CUSTOM_PCI": {"total": 2}})


PCI_DEVICE = {
    "address": "0000:84:00.0",
    "product_id": "a80a",
    "vendor_id": "144d",
    "dev_type": "type-PCI",
    "label": "label_144d_a80a",
    "numa_node": None,
    "parent_addr": None,
    "dev_id": "pci_0000_84_00_0",
    "status": "available",
}


def pci_tracker(node: Any) -> Any:
    """Nova's, with one device; the device's record is in no database."""
    spec = json.dumps({"address": PCI_DEVICE["address"]})
    conf.CONF.set_override("device_spec", [spec], group="pci")
    objects.PciDeviceList.get_by_compute_node = staticmethod(
        lambda *_: objects.PciDeviceList(objects=[])
    )
    tracker = pci.PciDevTracker(context.get_admin_context(), node)
    tracker.update_devices_from_hypervisor_resources(json.dumps([PCI_DEVICE]))
    return tracker


def main(argv: list[str]) -> None:
    """One period for each line."""
    clock, service = begin(argv[1])
    mine = NovaDriver(virtapi=None)
    client = report.SchedulerReportClient()
    tracker = resource_tracker.ResourceTracker(NODE, mine, reportclient=client)
    node = objects.ComputeNode(id=1, uuid=ROOT, hypervisor_hostname=NODE, host=NODE)
    node.numa_topology = None
    tracker.pci_tracker = pci_tracker(node)
    for number, line in enumerate(sys.stdin):
        mine.wish = json.loads(line)
        clock.ahead += mine.wish["later"]
        service.disabled = mine.wish["disabled"]
        conf.CONF.set_override("report_in_placement", mine.wish["pci"], group="pci")
        error = None
        try:
            tracker._update_to_placement(context.get_admin_context(), node, number == 0)
        except Exception as err:  # its compute manager logs it, and tries again
            error = f"{type(err).__name__}: {err}"
        sys.stdout.write(json.dumps({"period": number, "error": error}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv)
