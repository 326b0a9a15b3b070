"""Documents of other hosts, where a folder of them lies beside the repository."""

from __future__ import annotations

from pathlib import Path

import pytest

from drivers.inventory import InventoryPolicy, cpu_amounts, root_inventory
from drivers.libvirt import arch_traits, cpu, cpu_model, cpu_traits, documents
from reportclient.model import Inventory

SHARED = Path(__file__).resolve().parents[4] / "shared" / "data" / "libvirt"
DOCUMENTS = sorted(SHARED.glob("*.xml"))


@pytest.mark.skipif(not DOCUMENTS, reason=f"no documents in {SHARED}")
def test_every_document_is_read_and_capabilities_tell_cpus():
    told = set()
    for path in DOCUMENTS:
        document = documents.read(path.read_text())
        host_cpu = cpu.host_cpu(document)
        choice = cpu_model.CpuChoice("kvm", "host-passthrough")
        features = cpu_model.guest_features(
            host_cpu, choice, cpu_model.questions(host_cpu, choice), [None]
        )
        found = cpu_traits.cpu_traits(host_cpu, features, cpu.hyperthreading(document))
        found |= arch_traits.arch_traits(host_cpu, document)
        assert set(found) <= cpu_traits.OWNED | arch_traits.OWNED
        if document.tag != "capabilities":
            continue
        online = cpu.online(None, document, 1)
        inventory = root_inventory(cpu_amounts(online, InventoryPolicy()), InventoryPolicy(), {})
        assert Inventory.from_dict(inventory["VCPU"]).problem() is None
        assert host_cpu.arch is not None and host_cpu.model is not None
        assert any(found.values()), path.name
        told.add(path.name)
    assert told
