"""DISK_GB by backend, and what stands where the size is not known."""

from contextlib import suppress
from dataclasses import replace
from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.inventory import InventoryPolicy
from drivers.libvirt.facts.disk import (
    HDD,
    SSD,
    DiskAnswer,
    ImageBackend,
    StoragePool,
    backend_pool,
    storage_pool,
)
from tests.unit.libvirt.hosts import NODE, ROOT, new_tree, reading, report_of, totals, written

GIB = 1024**3
INSTANCES = PurePath("/srv/instances")


def pool(kind: str, source: str = "", target: str = "/dev/x", size: str = str(50 * GIB)) -> str:
    return (
        f"<pool type='{kind}'><name>p</name><capacity unit='bytes'>{size}</capacity>"
        f"<source>{source}</source><target><path>{target}</path></target></pool>"
    )


DIR = pool("dir", target="/srv/instances")
LVM = pool("logical", "<device path='/dev/sda'/><device path='/dev/sdb'/><name>vg0</name>")
RBD = pool("rbd", "<host name='mon1'/><name>vms</name>", target="")
ZFS = pool("zfs", "<name>tank/vms</name>")


def found(images: ImageBackend, *texts: str) -> StoragePool | None:
    return backend_pool(map(storage_pool, texts), images, INSTANCES)


@pytest.mark.parametrize(
    ("images", "text"),
    [
        (ImageBackend(), DIR),
        (ImageBackend("qcow2"), pool("netfs", target="/srv/instances/")),
        (ImageBackend("lvm", "vg0"), LVM),
        (ImageBackend("lvm", "p"), pool("logical")),
        (ImageBackend("rbd", "vms"), RBD),
        (ImageBackend("zfs", "tank/vms"), ZFS),
    ],
)
def test_each_backend_finds_its_pool_among_others(images, text):
    others = [pool("dir", target="/srv"), pool("rbd", "<name>x</name>")]
    assert found(images, *others) is None
    got = found(images, *others, text)
    assert got is not None and got.size == 50 * GIB


def test_a_pool_of_the_right_name_and_another_type_is_not_it():
    assert found(ImageBackend("rbd", "vg0"), LVM) is None
    assert found(ImageBackend("lvm", "vms"), RBD, ZFS) is None


def test_a_pool_without_a_size_is_none():
    assert found(ImageBackend("rbd", "vms"), pool("rbd", "<name>vms</name>", size="0")) is None


@pytest.mark.parametrize("size", ["", "-1", "much", "9" * 30, "1.5", "1 2", "٣"])
def test_a_pool_whose_size_can_not_be_right_is_unreadable(size):
    text = pool("rbd", "<name>vms</name>", size=size)
    with pytest.raises(ValueError, match=f"can't be right: <capacity> is '{size}' in bytes"):
        storage_pool(text)
    with pytest.raises(ValueError, match="in cubits"):
        storage_pool(pool("rbd", size="5").replace("unit='bytes'", "unit='cubits'"))


def test_the_disks_of_a_volume_group_are_known():
    got = found(ImageBackend("lvm", "vg0"), LVM)
    assert got is not None and got.devices == ("/dev/sda", "/dev/sdb")


def test_traits_of_the_disk_only_where_all_are_alike_and_known():
    def traits(*rotational):
        look = reading()
        answers = {**look.answers, "disk": DiskAnswer(GIB, rotational=rotational)}
        told = report_of(new_tree(), replace(look, answers=answers)).traits
        return {name: has for name, has in told.items() if name in (SSD, HDD)}

    assert traits(False) == {SSD: True, HDD: False}
    assert traits(True, True) == {SSD: False, HDD: True}
    for unclear in ((), (None,), (True, False), (True, None)):
        assert traits(*unclear) == {}


def test_disk_is_whole_units():
    assert totals(written(new_tree(), reading(disk_bytes=3 * GIB - 1)))["DISK_GB"] == 2


def test_an_unknown_size_keeps_what_placement_has_and_says_what_to_do():
    tree = new_tree()
    tree.update_inventory(NODE, {"DISK_GB": {"total": 7}})
    look = reading(disk_bytes=None, no_pool=True)
    images = ImageBackend("zfs", "vms")
    assert totals(written(tree, look, images=images))["DISK_GB"] == 7
    told = report_of(tree, look, images=images).notes["DISK_GB"]
    assert "'vms'" in told and "virsh pool-define" in told


def test_cached_images_are_reserved_in_whole_gib_beside_what_is_configured():
    policy = InventoryPolicy(reserved_disk_mb=10 * 1024)
    look = reading(cached_bytes=2 * 1024**3 + 1)
    tree = written(new_tree(), look, policy=policy)
    assert tree.data(ROOT).inventory["DISK_GB"]["reserved"] == 13


@given(
    st.sampled_from(["dir", "rbd", "logical", "zfs", "odd", ""]),
    st.text("0123456789-. ", max_size=30),
    st.sampled_from(["vms", "", "other"]),
)
def test_a_pool_has_a_size_that_placement_takes_or_is_unreadable(kind, size, source):
    text = pool(kind, f"<name>{source}</name>", "/srv/instances", size)
    for images in (ImageBackend(), *(ImageBackend(one, "vms") for one in ("rbd", "lvm", "zfs"))):
        with suppress(ValueError):  # such a document is not read
            got = found(images, text)
            assert got is None or got.size >= 0
