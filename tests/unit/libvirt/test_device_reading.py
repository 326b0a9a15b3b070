"""What is asked about devices, and what happens when it is not answered."""

import logging

import pytest

from drivers.api import ProviderTree
from drivers.libvirt.tree.reported import LATE
from tests.hosts import UP_FOR, FakeHost
from tests.unit.libvirt.devices import GPU, NIC, NIC_VF, guest, mdev, pci, sev
from tests.unit.libvirt.fake_binding import FakeDevice, FakeDomain, FakeLibvirtError
from tests.unit.libvirt.hosts import NODE, capabilities, cell, new_tree, update

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


def test_devices_of_a_libvirt_that_can_not_list_them_are_unknown(binding, make):
    """A package of libvirt's may be missing; only where options ask for devices it is named."""
    binding.answers["listAllDevices"] = [FakeDevice(pci(A))]
    tree = update(make(PCI))
    binding.refused["listAllDevices"] = FakeLibvirtError("unsupported", binding.VIR_ERR_NO_SUPPORT)
    driver = make(PCI + MDEV)
    assert names(update(driver, ProviderTree(tree.freeze()))) == {A}
    assert "unsupported" in driver.degraded(NODE)["node devices"]
    driver = make("")
    assert names(update(driver, tree)) == set() and driver.degraded(NODE) == {}


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


# -- what comes late

NICS = [f"0000:81:02.{n}" for n in range(4)]
CARD = [
    pci("0000:81:00.0", NIC, virtual=NICS),
    *(pci(one, NIC_VF, physical="0000:81:00.0") for one in NICS),
]
BARE_CARD = [pci("0000:81:00.0", NIC, virtual=[])]
SLICES = ["0000:84:00.4", "0000:84:00.5"]
SLICED = [pci(A, GPU, virtual=SLICES), *(pci(v, GPU, physical=A, types={"t": 1}) for v in SLICES)]
ON_VFS = PCI.replace("144d", "8086").replace("}", ', "product_id": "154c"}')
GROUPED = ON_VFS + "group_devices = true\n"
ON_PF = PCI.replace('"vendor_id": "144d"', '"address": "0000:81:00.0"')
IN_ONE_CLASS = ON_PF.replace("}", ', "resource_class": "nic"}')
OTHER_CARD = [each.replace("81", "41").replace("129", "65") for each in CARD]
PF_OR_VFS = PCI.replace("144d", "8086") + "group_devices = true\n"
WHOLE = PCI.replace("144d", GPU[0])
WHOLE_OR_TYPES = WHOLE + MDEV
IN_GROUP = WHOLE_OR_TYPES + "group_mdev_devices = true\n"
GPUS = [pci(A, GPU, types={"t": 4}), pci(B, GPU, types={"t": 4})]


@pytest.mark.parametrize(
    ("text", "whole", "bare", "words"),
    [
        (ON_VFS, CARD, BARE_CARD, "0000:81:00.0 has no VFs yet"),
        (ON_PF, CARD, BARE_CARD, "0000:81:00.0 has no VFs yet"),
        (GROUPED, CARD, BARE_CARD, "0000:81:00.0 has no VFs yet"),
        (PCI, [pci(A)], [pci(A, iommu=False)], "has no IOMMU group yet"),
        (MDEV, [pci(A, GPU, types={"t": 4})], [pci(A, GPU)], "has no mdev types yet"),
        (MDEV, SLICED, [pci(A, GPU, virtual=[])], "has no VFs yet"),
        (IN_ONE_CLASS, CARD, BARE_CARD, "has no VFs yet"),
        (PF_OR_VFS, CARD, BARE_CARD, "has no VFs yet"),
        (GROUPED, [*CARD, *OTHER_CARD], [*BARE_CARD, *OTHER_CARD], "has no VFs yet"),
        (WHOLE_OR_TYPES, GPUS, [GPUS[0], pci(B, GPU)], "has no mdev types yet"),
        (WHOLE_OR_TYPES, SLICED, [pci(A, GPU, virtual=[])], "has no VFs yet"),
        (IN_GROUP, GPUS, [GPUS[0], pci(B, GPU)], "has no mdev types yet"),
    ],
    ids=[
        *("VFs", "VFs or the PF", "a group", "IOMMU groups", "mdev types", "VFs with mdev types"),
        *("VFs or the PF in one class", "VFs or the PF in groups", "a part of a group"),
        *("mdev types or whole", "VFs with mdev types or whole", "mdev types in a group or whole"),
    ],
)
def test_devices_that_come_late_after_a_boot_stay_and_are_named(
    binding, tmp_path, text, whole, bare, words
):
    now = [UP_FOR]
    host = FakeHost(tmp_path, binding, clock=lambda: now[0], disk=1024**3)

    def at(time, driver, tree, listed):
        now[0], binding.answers["listAllDevices"] = time, [FakeDevice(each) for each in listed]
        tree = update(driver, ProviderTree(tree.freeze()))
        return tree, words in str(driver.degraded(NODE))

    tree, _ = at(UP_FOR, host.driver(text), new_tree(), whole)
    before, driver = tree.freeze(), host.driver(text)
    assert len(names(tree)) > 0
    tree, is_named = at(60.0, driver, tree, bare)  # after a reboot
    assert tree.freeze() == before and is_named
    tree, is_named = at(600.0, driver, tree, whole)
    assert tree.freeze() == before and not is_named
    tree, is_named = at(600.0 + LATE - 1, driver, tree, bare)
    assert tree.freeze() == before and is_named
    tree, is_named = at(600.0 + LATE + 301, driver, tree, bare)
    assert tree.freeze() != before and not is_named
    assert not at(60.0, host.driver(""), tree, bare)[0].get_provider_uuids(NODE)[1:]
    host.close()


def offered(tree):
    return {
        tree.data(uuid).name.removeprefix(f"{NODE}_")
        for uuid in tree.get_provider_uuids(NODE)[1:]
        if tree.data(uuid).inventory
    }


def test_a_card_that_is_offered_otherwise_after_a_boot_is_offered_once(binding, tmp_path):
    """Its type may come late, and guests may have the old one: it waits until neither can be."""
    now = [60.0]
    host = FakeHost(tmp_path, binding, clock=lambda: now[0])
    binding.answers["listAllDevices"] = [FakeDevice(pci(A, GPU, types={"t": 4}))]
    tree = update(host.driver(MDEV))
    binding.answers["listAllDevices"] = [FakeDevice(pci(A, GPU))]
    driver = host.driver(WHOLE + "[devices]\nenabled_mdev_types = u\n")
    for time, expected in ((60.0, {"pci_0000_84_00_0"}), (LATE, set()), (LATE, {A})):
        now[0] = time
        tree = update(driver, ProviderTree(tree.freeze()))
        assert offered(tree) == expected
    host.close()


@pytest.mark.parametrize("listed", [[pci(A, GPU, types={"t": 4})], SLICED], ids=["types", "VFs"])
def test_a_card_is_never_offered_whole_and_as_vgpus(binding, make, listed):
    binding.answers["listAllDevices"] = [FakeDevice(each) for each in listed]
    whole, divided = make(WHOLE), make(MDEV)
    tree = update(divided)
    vgpus = offered(tree)
    for driver, before, after in ((whole, vgpus, {A}), (divided, {A}, vgpus)):
        assert offered(tree) == before
        tree = update(driver, ProviderTree(tree.freeze()))
        assert offered(tree) == set() and "Placement" in str(driver.degraded(NODE))
        tree = update(driver, ProviderTree(tree.freeze()))
        assert offered(tree) == after and "Placement" not in str(driver.degraded(NODE))


def test_channels_of_a_mainframe_stay_until_they_are_bound_after_a_boot(binding, tmp_path):
    now = [UP_FOR]
    host = FakeHost(tmp_path, binding, clock=lambda: now[0])
    kinds = pci(A, types={"t": 1}).partition("<capability type='mdev_types'>")[2].partition("</cap")
    types = f"<capability type='css'><capability type='mdev_types'>{kinds[0]}</capability>"
    channel = f"<device><name>css_0_0_0052</name>{types}</capability></device>"
    binding.answers["listAllDevices"] = [FakeDevice(channel)]
    tree = update(host.driver(MDEV))
    binding.answers["listAllDevices"] = []
    driver = host.driver(MDEV)
    for time, expected in ((60.0, {"css_0_0_0052"}), (LATE, set())):
        now[0] = time
        tree = update(driver, ProviderTree(tree.freeze()))
        assert offered(tree) == expected
    host.close()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (PCI, ""),
        (PCI.replace("144d", "8086"), 'no device matches {"vendor_id": "8086"}'),
        (PCI.replace("true", "false"), "is set, but not [pci] report_in_placement"),
        (PCI.replace("true", "false").replace("}", ', "physical_network": "n"}'), ""),
    ],
)
def test_a_device_spec_without_effect_is_named(binding, make, text, words):
    binding.answers["listAllDevices"] = [FakeDevice(pci(A))]
    driver = make(text)
    update(driver)
    note = driver.degraded(NODE).get("[pci] device_spec", "")
    assert words in note and bool(words) == bool(note)


def test_encryption_is_not_known_while_the_kernels_module_is_not_loaded(binding, make, tmp_path):
    binding.answers["getDomainCapabilities"] = sev()
    tree = update(make(""))
    (tmp_path / "sys/module/loop").mkdir(parents=True)
    driver = make("")
    assert names(update(driver, tree)) == {"amd_sev", "amd_sev_es"}
    assert "kvm_amd" in driver.degraded(NODE)["kernel modules"]
    binding.answers["getDomainCapabilities"] = sev(supported="no")
    driver = make("")
    assert names(update(driver, tree)) == set() and driver.degraded(NODE) == {}
