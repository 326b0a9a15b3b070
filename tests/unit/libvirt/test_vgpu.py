"""vGPUs: totals, classes, limits, and the old place on the root."""

from dataclasses import replace

import pytest

from drivers.errors import ReshapeNeeded
from drivers.libvirt.devices.devices import NodeDevices
from drivers.libvirt.devices.vgpu import MdevSettings, MdevType
from tests.hosts import context
from tests.unit.libvirt.devices import GPU, devices, mdev, pci
from tests.unit.libvirt.hosts import NODE, ROOT, new_tree, reading, report_of, totals, written

A, B = "0000:84:00.0", "0000:85:00.0"
NAMES = [f"{NODE}_pci_0000_84_00_0", f"{NODE}_pci_0000_85_00_0"]


def enabled(*types, **more):
    kinds = tuple(MdevType(one) if isinstance(one, str) else one for one in types)
    return {"mdev": MdevSettings(kinds, **more)}


def look(*listed):
    return reading(devices=devices(*listed))


def gpus(free=4, **types):
    return [pci(at, GPU, types=types or {"nvidia-35": free, "nvidia-36": 2}) for at in (A, B)]


def found(tree):
    below = tree.get_provider_uuids(ROOT)[1:]
    return {tree.data(one).name: totals(tree, tree.data(one).name) for one in below}


def test_each_gpu_has_what_could_be_made_and_what_there_is():
    listed = [*gpus(4), mdev(1, "nvidia-35", A), mdev(2, "nvidia-35", A, told=False)]
    tree = written(new_tree(), look(*listed, mdev(3, "nvidia-36", B)), **enabled("nvidia-35"))
    assert found(tree) == {NAMES[0]: {"VGPU": 6}, NAMES[1]: {"VGPU": 4}}


def test_types_go_by_address_each_with_its_class():
    types = (
        MdevType("nvidia-35", frozenset({A})),
        MdevType("nvidia-36", frozenset({B}), "CUSTOM_BIG"),
    )
    tree = written(new_tree(), look(*gpus()), **enabled(*types))
    assert found(tree) == {NAMES[0]: {"VGPU": 4}, NAMES[1]: {"CUSTOM_BIG": 2}}


def test_a_limit_is_for_the_whole_host_and_what_there_is_counts_first():
    limited = enabled(MdevType("nvidia-35", max_instances=5))
    listed = [*gpus(4), mdev(1, "nvidia-35", B), mdev(2, "nvidia-35", B)]
    assert found(written(new_tree(), look(*listed), **limited)) == {
        NAMES[0]: {"VGPU": 3},
        NAMES[1]: {"VGPU": 2},
    }


def test_each_vf_of_a_gpu_is_a_provider():
    vfs = [f"0000:84:01.{n}" for n in range(3)]
    listed = [pci(A, GPU, virtual=vfs), *(pci(v, GPU, physical=A, types={"t": 1}) for v in vfs)]
    tree = written(new_tree(), look(*listed), **enabled("t"))
    assert found(tree) == {f"{NODE}_pci_0000_84_01_{n}": {"VGPU": 1} for n in range(3)}


def test_many_vfs_can_be_one_provider():
    vfs = [f"0000:84:0{n // 8}.{n % 8}" for n in range(1, 17)]
    listed = [pci(v, GPU, physical=A, types={"t": 1}) for v in vfs]
    assert report_of(new_tree(), look(*listed), **enabled("t")).warnings
    grouped = enabled("t", group_mdev_devices=True)
    assert found(written(new_tree(), look(*listed), **grouped)) == {
        f"{NODE}_all_VGPU": {"VGPU": 16}
    }


def test_what_is_not_on_a_pci_bus_can_be_divided_too():
    channel = (
        "<device><name>css_0_0_0023</name><capability type='css'>"
        "<capability type='mdev_types'><type id='vfio_ccw-io'><availableInstances>1"
        "</availableInstances></type></capability></capability></device>"
    )
    tree = written(new_tree(), look(channel), **enabled("vfio_ccw-io"))
    assert found(tree) == {f"{NODE}_css_0_0_0023": {"VGPU": 1}}


def test_a_type_that_is_switched_off_goes_and_so_does_a_full_gpu():
    tree = written(new_tree(), look(*gpus()), **enabled("nvidia-35"))
    assert found(written(tree, look(*gpus()))) == {}
    assert found(written(tree, look(*gpus(0)), **enabled("nvidia-35"))) == {}


def test_a_type_that_no_device_has_is_told():
    report = report_of(new_tree(), look(*gpus()), **enabled("nvidia-53"))
    assert "no device has it" in report.notes["mdev type nvidia-53"]
    absent = MdevType("nvidia-35", frozenset({A, "0000:99:00.0"}))
    report = report_of(new_tree(), look(*gpus()), **enabled(absent))
    assert report.notes["mdev type nvidia-35"] == "is not available on 0000:99:00.0"


# -- the old place


def old_tree():
    tree = written(new_tree(), look())
    tree.update_inventory(ROOT, {**tree.data(ROOT).inventory, "VGPU": {"total": 8}})
    return tree


def test_vgpus_on_the_root_move_to_the_gpus_with_their_allocations():
    tree = old_tree()
    with pytest.raises(ReshapeNeeded, match="VGPU"):
        written(tree, look(*gpus()), **enabled("nvidia-35"))
    held = {"a": {"allocations": {ROOT: {"resources": {"VGPU": 3, "VCPU": 1}}}}}
    later = written(tree, look(*gpus()), held, **enabled("nvidia-35"))
    assert found(later) == dict.fromkeys(NAMES, {"VGPU": 4})
    assert "VGPU" not in later.data(ROOT).inventory
    card = later.data(NAMES[0]).uuid
    assert held["a"]["allocations"][card] == {"resources": {"VGPU": 3}}


def test_a_class_of_its_own_has_no_old_place():
    tree = written(
        old_tree(), look(*gpus()), **enabled(MdevType("nvidia-35", resource_class="CUSTOM_A"))
    )
    assert "VGPU" not in tree.data(ROOT).inventory


def test_they_stay_there_while_the_devices_are_not_known():
    unheard = reading(devices=None)
    tree = written(old_tree(), unheard, **enabled("nvidia-35"))
    assert tree.data(ROOT).inventory["VGPU"]["total"] == 8


# -- options

TWO = """
[devices]
enabled_mdev_types = nvidia-35, nvidia-36
[mdev_nvidia-35]
device_addresses = 0000:84:00.0, 0000:85:00.0
max_instances = 3
[mdev_nvidia-36]
device_addresses = 0000:86:00.0
mdev_class = CUSTOM_BIG
[mdev_nvidia-37]
device_addresses = not enabled, so not read
"""


def test_options_of_types(tmp_path):
    conf = context(tmp_path, TWO)
    assert NodeDevices.from_context(conf).mdev.types == (
        MdevType("nvidia-35", frozenset({A, B}), max_instances=3),
        MdevType("nvidia-36", frozenset({"0000:86:00.0"}), "CUSTOM_BIG"),
    )


def test_one_type_without_addresses_is_the_default_of_all_other_devices(tmp_path):
    text = TWO.replace(", nvidia-36", ", nvidia-36, nvidia-37").replace("0000:86:00.0", B)
    text = text.replace(f"{A}, {B}\n", "\n").split("[mdev_nvidia-37]")[0]
    settings = NodeDevices.from_context(context(tmp_path, text)).mdev
    assert [kind.name for kind in settings.types] == ["nvidia-35", "nvidia-36"]
    assert "[mdev_nvidia-37] has no device_addresses: only nvidia-35 is" in settings.note
    listed = [*gpus(4), pci("0000:87:00.0", GPU, types={"nvidia-35": 2, "nvidia-36": 1})]
    tree = written(new_tree(), look(*listed), mdev=replace(settings, types=settings.types))
    third = f"{NODE}_pci_0000_87_00_0"
    limited = {NAMES[0]: {"VGPU": 3}, NAMES[1]: {"CUSTOM_BIG": 2}}
    assert found(tree) == limited, "max_instances is for the whole host"
    unlimited = tuple(replace(kind, max_instances=None) for kind in settings.types)
    tree = written(tree, look(*listed), mdev=replace(settings, types=unlimited))
    assert found(tree) == {**limited, NAMES[0]: {"VGPU": 4}, third: {"VGPU": 2}}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("0000:86:00.0", A, r"\[mdev_nvidia-36\] device_addresses: 0000:84:00.0 is in \[mdev_nvid"),
        ("CUSTOM_BIG", "BIG", r"\[mdev_nvidia-36\] mdev_class = 'BIG' is neither VGPU nor"),
        (B, "84:00", r"\[mdev_nvidia-35\] device_addresses: '84:00' is not like 0000:84:00.0"),
    ],
)
def test_what_is_wrong_is_named_with_its_group(tmp_path, old, new, words):
    with pytest.raises(ValueError, match=words):
        NodeDevices.from_context(context(tmp_path, TWO.replace(old, new)))
