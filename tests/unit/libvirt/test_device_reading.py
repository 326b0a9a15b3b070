"""What is asked about devices, and what happens when it is not answered."""

from __future__ import annotations

import logging

from tests.unit.libvirt.devices import GPU, guest, mdev, pci, sev
from tests.unit.libvirt.fake_binding import FakeDevice, FakeDomain, FakeLibvirtError
from tests.unit.libvirt.hosts import NODE, capabilities, cell, update

A, B = "0000:84:00.0", "0000:85:00.0"
PCI = '[pci]\nreport_in_placement = true\ndevice_spec = {"vendor_id": "144d"}\n'
MDEV = "[devices]\nenabled_mdev_types = t\n"


def names(tree):
    return {
        tree.data(uuid).name.removeprefix(f"{NODE}_") for uuid in tree.get_provider_uuids(NODE)[1:]
    }


def test_devices_are_listed_only_where_options_need_them(binding, make):
    update(make('[pci]\ndevice_spec = {"vendor_id": "144d"}\n'))
    assert "listAllDevices" not in binding.calls and "listAllDomains" not in binding.calls
    update(make(PCI))
    assert "listAllDevices" in binding.calls and "listAllDomains" not in binding.calls


def test_entries_are_only_read_where_they_are_reported(make):
    update(make("[pci]\ndevice_spec = another service's\n"))


def test_a_device_that_vanishes_between_list_and_read_is_not_there(binding, make):
    gone = FakeDevice(pci(B), FakeLibvirtError("no such device", binding.VIR_ERR_NO_NODE_DEVICE))
    binding.answers["listAllDevices"] = [FakeDevice(pci(A)), gone]
    driver = make(PCI)
    assert names(update(driver)) == {A}
    assert driver.degraded("host1") == {}


def test_a_device_that_cannot_be_read_stays_as_it_was_and_the_others_go_on(binding, make):
    one = FakeDevice(pci(A))
    binding.answers["listAllDevices"] = [one, FakeDevice(pci(B))]
    driver = make(PCI)
    tree = update(driver)
    one.problem = FakeLibvirtError("I/O error")
    binding.answers["listAllDevices"] = [one]
    binding.connections[0].happen("nodeDevice", 0, 1, 0)
    assert names(update(driver, tree)) == {A}


def test_a_hypervisor_without_node_devices_has_none(binding, make):
    binding.refused["listAllDevices"] = FakeLibvirtError("unsupported", binding.VIR_ERR_NO_SUPPORT)
    driver = make(PCI + MDEV)
    assert names(update(driver)) == set()
    assert "node devices" not in driver.degraded("host1")


def test_guests_are_read_again_only_when_a_guest_gets_a_device(binding, make):
    binding.answers["listAllDevices"] = [FakeDevice(pci(A))]
    driver = make(PCI.replace("}", ', "one_time_use": "yes"}'))
    tree = update(driver)
    binding.calls.clear()
    binding.answers["listAllDomains"] = [FakeDomain(guest(A))]
    update(driver, tree)
    assert binding.calls == ["getHostname", "getCapabilities", "getCPUMap", "getMemoryStats"]
    binding.connections[0].happen("domain", 19, "hostdev0")
    (record,) = update(driver, tree).data(f"{NODE}_{A}").inventory.values()
    assert record["reserved"] == 1


def test_an_instance_that_is_defined_and_not_started_is_no_second_one(binding, make):
    """As after a reboot; what can be created has it already."""
    started, defined = FakeDevice(mdev(1, "t", A)), FakeDevice(mdev(2, "t", A))
    gpu, active = FakeDevice(pci(A, GPU, types={"t": 3})), 1 << 31

    def listed(flags):
        return [gpu, started] if flags & active else [gpu, started, defined]

    binding.answers["listAllDevices"] = listed
    tree = update(make(MDEV))
    assert tree.data(f"{NODE}_pci_0000_84_00_0").inventory["VGPU"]["total"] == 4


def test_a_libvirt_without_defined_devices_lists_all_devices(binding, make):
    def listed(flags):
        if flags & 1 << 31:
            raise FakeLibvirtError("unsupported flags", binding.VIR_ERR_INVALID_ARG)
        return [FakeDevice(pci(A, GPU, types={"t": 3}))]

    binding.answers["listAllDevices"] = listed
    assert names(update(make(MDEV))) == {"pci_0000_84_00_0"}


def test_encryption_is_asked_of_kvm_on_x86_once_a_connection(binding, make):
    binding.answers["getDomainCapabilities"] = sev()
    driver = make("")
    tree = update(driver)
    asked = binding.calls.count("getDomainCapabilities")
    update(driver, tree)
    assert names(tree) == {"amd_sev", "amd_sev_es"}
    assert binding.calls.count("getDomainCapabilities") == asked > 0
    assert names(update(make("[libvirt]\nvirt_type = qemu\n"), tree)) == set()
    assert binding.calls.count("getDomainCapabilities") == asked + 1, "for device models only"


def test_what_the_kernel_switched_off_is_not_to_be_had(binding, make, tmp_path):
    binding.answers["getDomainCapabilities"] = sev()
    parameters = tmp_path / "sys/module/kvm_amd/parameters"
    parameters.mkdir(parents=True)
    (parameters / "sev").write_text("Y\n")
    (parameters / "sev_es").write_text("N\n")
    driver = make("")
    tree = update(driver)
    assert names(tree) == {"amd_sev"}
    (parameters / "sev_es").write_text("1\n")
    assert names(update(driver, tree)) == {"amd_sev", "amd_sev_es"}


def test_tdx_is_asked_of_the_machine_type_that_has_it(binding, make, tmp_path):
    """libvirt tells of it for q35 only, and the default machine type of x86 is another."""
    machines = "<machine>pc</machine><machine>q35</machine><domain type='kvm'/>"
    text = capabilities(cell(0, range(2))).replace(
        "</host>", f"</host><guest><arch name='x86_64'>{machines}</arch></guest>"
    )
    binding.answers["getCapabilities"] = text
    tdx = "<features><tdx supported='yes'/></features>"
    binding.answers["getDomainCapabilities"] = lambda _emulator, _arch, machine, *_more: (
        f"<domainCapabilities>{tdx if machine == 'q35' else ''}</domainCapabilities>"
    )
    groups = tmp_path / "sys/fs/cgroup"
    groups.mkdir(parents=True)
    (groups / "misc.capacity").write_text("sev 99\ntdx 31\n")
    tree = update(make("[libvirt]\ncpu_mode = host-passthrough\n"))
    assert names(tree) == {"intel_tdx"}
    assert tree.data(f"{NODE}_intel_tdx").inventory["MEM_ENCRYPTION_CONTEXT"]["total"] == 31
    assert names(update(make(""))) == set()


def test_many_similar_devices_are_warned_of_once(binding, make, caplog):
    caplog.set_level(logging.WARNING)
    binding.answers["listAllDevices"] = [FakeDevice(pci(f"0000:{n:02x}:00.0")) for n in range(8)]
    driver = make(PCI)
    update(driver, update(driver))
    (warning,) = caplog.messages
    assert warning.startswith("8 similar providers of CUSTOM_PCI_144D_A80A ")
