"""OWNER_NOVA in [compute] owner_trait: what Nova's scheduler asks for, of a real Placement."""

from typing import Any

import pytest

from reportclient.provider_tree import ProviderTree
from tests.agents import NODE, OWNER, Agent, Small, child_uuid
from tests.integration.libvirt_hosts import DocumentedHost, providers
from tests.unit.libvirt.devices import GPU, pci, sev
from tests.unit.libvirt.fake_binding import FakeDevice
from tests.unit.libvirt.hosts import two_cells

NOVA = "OWNER_NOVA"
DISK, CARD = "0000:04:00.0", "0000:84:00.0"
STORAGE = child_uuid("storage")
AGGREGATE = "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01"
CONF = """
[compute]
owner_trait = {}
[pci]
report_in_placement = true
device_spec = {{"vendor_id": "144d"}}
[devices]
enabled_mdev_types = nvidia-35
"""
QUERY = (
    "/allocation_candidates?resources=VCPU:1&root_required=OWNER_NOVA"
    "&resources_D=CUSTOM_PCI_144D_A80A:1&required_D=OWNER_NOVA"
    "&resources_E=MEM_ENCRYPTION_CONTEXT:1&required_E=HW_CPU_X86_AMD_SEV,OWNER_NOVA"
    "&resources_G=VGPU:1&required_G=OWNER_NOVA&group_policy=none"
)
"""As Nova 34 asks, once all its services are new enough: of the root and of PCI groups."""


@pytest.fixture
def host(placement, tmp_path):
    host = DocumentedHost(placement, tmp_path, two_cells(), mib=8192)
    listed = pci(DISK), pci(CARD, GPU, types={"nvidia-35": 4})
    host.binding.answers["listAllDevices"] = [FakeDevice(one) for one in listed]
    host.binding.answers["getDomainCapabilities"] = sev(15, 0)
    yield host
    host.close()


def start(host: DocumentedHost, *owners: str) -> Agent:
    agent = host.start(CONF.format(", ".join(owners)), owner_traits=owners)
    assert agent.period().ok
    return agent


def marked(host: DocumentedHost) -> set[str]:
    traits = host.placement.stranger.traits
    return {name for name, one in providers(host.placement).items() if NOVA in traits(one["uuid"])}


def candidates(host: DocumentedHost) -> int:
    return len(host.placement.request("GET", QUERY)["allocation_requests"])


def test_novas_scheduler_finds_host_and_devices_only_with_its_trait(host):
    start(host, OWNER)
    assert marked(host) == set() and candidates(host) == 0
    agent = start(host, OWNER, NOVA)
    assert marked(host) == set(providers(host.placement)), "a disk, a vGPU and SEV below the root"
    assert candidates(host) == 1
    assert agent.period().done == ()


def test_a_cell_is_not_marked(host):
    text = CONF.format(f"{OWNER}, {NOVA}") + "[libvirt]\nreport_numa = nested\n"
    assert host.start(text, owner_traits=(OWNER, NOVA)).period().ok
    names = set(providers(host.placement))
    assert names - marked(host) == {f"{NODE}_numa0", f"{NODE}_numa1"}


def sharing(tree: ProviderTree, nodename: str, allocations: Any = None) -> None:
    tree.update_inventory(nodename, {"VCPU": {"total": 8}})
    tree.update_aggregates(nodename, [AGGREGATE])
    if not tree.exists("storage"):
        tree.new_root("storage", STORAGE)
    tree.update_inventory("storage", {"DISK_GB": {"total": 1000}})
    tree.update_traits("storage", {*tree.data("storage").traits, "MISC_SHARES_VIA_AGGREGATE"})
    tree.update_aggregates("storage", [AGGREGATE])


def test_own_sharing_providers_are_known_by_the_custom_trait_and_get_all(placement):
    Agent(placement, Small(sharing)).settle()
    Agent(placement, Small(sharing), owner_traits=(NOVA, OWNER)).settle()
    assert {OWNER, NOVA} <= set(placement.stranger.traits(STORAGE))


def test_a_sharing_provider_with_novas_trait_alone_is_of_another_owner(placement):
    stranger = placement.stranger
    stranger.create_provider("storage", STORAGE)
    stranger.add_trait(STORAGE, "MISC_SHARES_VIA_AGGREGATE")
    stranger.add_trait(STORAGE, NOVA)
    stranger.set_inventory(STORAGE, {"DISK_GB": {"total": 5}})
    stranger.set_aggregates(STORAGE, [AGGREGATE])
    driver = Small(lambda tree, nodename, allocations: tree.add_aggregates(nodename, AGGREGATE))
    agent = Agent(placement, driver, owner_traits=(OWNER, NOVA)).settle()
    driver.body = sharing
    agent.period()
    assert STORAGE in driver.shown[-1]
    assert stranger.inventory(STORAGE)["DISK_GB"]["total"] == 5
    assert OWNER not in stranger.traits(STORAGE)
