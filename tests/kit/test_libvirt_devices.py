"""The libvirt driver keeps the rules with all that it can report, on a host made of documents."""

from collections.abc import Iterator

import pytest

from driverkit.contract import DriverContract
from drivers.api import ProviderTree
from drivers.libvirt.driver import LibvirtDriver
from tests.hosts import FakeHost
from tests.unit.libvirt.devices import GPU, NIC, NIC_VF, mdev, pci, sev
from tests.unit.libvirt.fake_binding import FakeDevice, FakeLibvirt, FakeLibvirtError
from tests.unit.libvirt.hosts import NODE, ROOT, capabilities, cell

GUESTS = ("5cb3a1ba-7e31-4f6b-a6c1-9d4c5f6e7a01", "5cb3a1ba-7e31-4f6b-a6c1-9d4c5f6e7a02")
EVERYTHING = """
[compute]
cpu_shared_set = 0-5
cpu_dedicated_set = 6-7
[pci]
report_in_placement = true
device_spec = {"vendor_id": "144d", "traits": "fast"}
device_spec = {"vendor_id": "8086", "product_id": "154c"}
[devices]
enabled_mdev_types = nvidia-35
[libvirt]
report_numa = nested
report_hugepages = pages
"""
PF, VFS = "0000:81:00.0", [f"0000:81:02.{n}" for n in range(2)]
GPUS = [f"0000:8{n}:00.0" for n in (4, 5)]


def devices(disks: int = 3) -> list[FakeDevice]:
    disk = [
        pci(f"{n // 8192:04x}:{n // 32 % 256:02x}:{n % 32:02x}.0") for n in range(32, 32 + disks)
    ]
    gpus = [pci(at, GPU, cell=n, types={"nvidia-35": 4}) for n, at in enumerate(GPUS)]
    card = [pci(PF, NIC, cell=1, virtual=VFS), *(pci(at, NIC_VF, physical=PF) for at in VFS)]
    return [FakeDevice(one) for one in (*disk, *gpus, *card, mdev(1, "nvidia-35", GPUS[0]))]


class TestLibvirtDriverWithEverything(DriverContract):
    @pytest.fixture
    def driver_config(self) -> str:
        return EVERYTHING

    @pytest.fixture
    def binding(self) -> FakeLibvirt:
        binding = FakeLibvirt()
        cells = [cell(n, range(4 * n, 4 * n + 4), pages={2048: 256}) for n in range(2)]
        binding.answers["getCapabilities"] = capabilities(*cells)
        binding.answers["getCPUMap"] = (8, [True] * 8, 8)
        binding.answers["getDomainCapabilities"] = sev(15, 84)
        binding.answers["listAllDevices"] = devices()
        return binding

    @pytest.fixture
    def make(self, binding: FakeLibvirt, tmp_path) -> Iterator:
        host = FakeHost(tmp_path, binding)
        yield host.driver_in
        host.close()

    @pytest.fixture
    def make_driver(self, make, driver_context):
        return lambda: make(driver_context)

    @pytest.fixture
    def make_big_driver(self, make, driver_context, binding):
        def make_big(count: int) -> LibvirtDriver:
            binding.answers["listAllDevices"] = devices(count)
            return make(driver_context)

        return make_big

    @pytest.fixture
    def lose_backend(self, binding: FakeLibvirt):
        def lose():
            binding.down = FakeLibvirtError("nobody listens", binding.VIR_ERR_SYSTEM_ERROR)
            binding.lose_connections()
            return lambda: setattr(binding, "down", None)

        return lose

    @pytest.fixture
    def lose_device(self, binding: FakeLibvirt):
        def lose():
            binding.answers["listAllDevices"] = devices(disks=2)
            for connection in binding.connections:
                connection.happen("nodeDevice", 0, 1, 0)

        return lose

    @pytest.fixture
    def reshape_case(self):
        """CPUs, memory and vGPUs on the root, as they were before cells and devices had them."""
        tree = ProviderTree()
        tree.new_root(NODE, ROOT)
        there = {"VCPU": 6, "PCPU": 2, "MEMORY_MB": 7168, "VGPU": 9, "CUSTOM_HUGEPAGES_2M": 512}
        tree.update_inventory(NODE, {name: {"total": total} for name, total in there.items()})
        held = {"VCPU": 2, "PCPU": 1, "MEMORY_MB": 512, "VGPU": 3, "CUSTOM_HUGEPAGES_2M": 16}
        return tree, {who: {"allocations": {NODE: {"resources": held}}} for who in GUESTS}
