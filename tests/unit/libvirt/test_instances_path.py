"""DISK_GB of ``instances_path`` that can't be read, or that is not mounted."""

import errno
import os
from pathlib import Path

import pytest

from drivers.inventory import DISK_GB
from drivers.libvirt.facts.disk import GIB, ImageBackend, backend_pool, storage_pool
from tests.unit.libvirt.fake_binding import FakeDomain
from tests.unit.libvirt.hosts import NODE, new_tree, update

INSTANCES = "/var/lib/nova/instances"
TEXT = f"[DEFAULT]\ninstances_path = {INSTANCES}\n"
ROOT_MOUNT = "22 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
DISK_MOUNT = f"23 22 8:17 / {INSTANCES} rw - xfs /dev/sdb1 rw\n"


def pool(kind, gib, name="nova"):
    return FakeDomain(
        f"<pool type='{kind}'><name>{name}</name><capacity unit='bytes'>{gib * GIB}</capacity>"
        f"<target><path>{INSTANCES}</path></target></pool>",
        name,
    )


@pytest.fixture
def tree():
    tree = new_tree()
    tree.update_inventory(NODE, {DISK_GB: {"total": 7}})
    return tree


@pytest.fixture
def mount(tmp_path):
    """Write the table of mounts, and fstab with two disks."""
    (tmp_path / "etc").mkdir()
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "etc/fstab").write_text(
        f"/dev/sda1 / ext4 defaults 0 1\n/dev/sdb1 {INSTANCES} xfs defaults 0 2\n"
        "/dev/sdc1 /data xfs defaults 0 2\n"
    )

    def write(mounts):
        (tmp_path / "proc/self/mountinfo").write_text(mounts)

    return write


def gib(driver, tree):
    return update(driver, tree).data(NODE).inventory[DISK_GB]["total"]


@pytest.mark.parametrize(
    "number", [errno.EACCES, errno.ESTALE, errno.EIO, errno.ENOTCONN, errno.ETIMEDOUT]
)
def test_a_path_that_can_not_be_read_keeps_its_size_and_is_named(make, tree, monkeypatch, number):
    stat = Path.stat

    def refused(path, **options):
        if str(path).endswith(INSTANCES):
            raise OSError(number, os.strerror(number))
        return stat(path, **options)

    monkeypatch.setattr(Path, "stat", refused)
    driver = make(TEXT)
    assert gib(driver, tree) == 7
    assert os.strerror(number) in driver.degraded(NODE)["disk"]


@pytest.mark.parametrize("kind", ["netfs", "fs", "gluster"])
def test_a_pool_that_is_not_started_is_not_the_file_system_below_it(make, binding, tree, kind):
    pools = {2: [], 1: [pool(kind, 0)]}
    binding.answers["listAllStoragePools"] = lambda flags: pools[flags]
    driver = make(TEXT)
    assert gib(driver, tree) == 7
    assert "virsh pool-start nova" in driver.degraded(NODE)["disk"]
    pools.update({2: [pool(kind, 100)], 1: []})
    binding.connections[0].happen("storagePool", 0, 0, 0)
    assert gib(driver, tree) == 100
    assert driver.degraded(NODE) == {}
    pools.update({2: [], 1: [pool(kind, 100)]})
    binding.connections[0].happen("storagePool", 0, 0, 0)
    assert gib(driver, tree) == 100
    assert "virsh pool-start nova" in driver.degraded(NODE)["disk"]


def test_a_pool_that_is_mounted_without_libvirt_is_its_file_system(make, binding, tree, mount):
    mount(ROOT_MOUNT + DISK_MOUNT)
    binding.answers["listAllStoragePools"] = lambda flags: [pool("fs", 0)] if flags == 1 else []
    driver = make(TEXT)
    assert gib(driver, tree) != 7
    assert driver.degraded(NODE) == {}


def test_a_directory_that_is_not_mounted_is_not_the_pool_in_it(make, binding, tree, mount):
    mount(ROOT_MOUNT)
    binding.answers["listAllStoragePools"] = [pool("dir", 50)]
    driver = make(TEXT)
    assert gib(driver, tree) == 7
    assert f"{INSTANCES}, which /etc/fstab names" in driver.degraded(NODE)["disk"]
    mount(ROOT_MOUNT + DISK_MOUNT)
    assert gib(driver, tree) == 50


def test_a_link_into_what_is_not_mounted_is_not_the_disk_below_it(make, tree, mount, tmp_path):
    mount(ROOT_MOUNT)
    (tmp_path / INSTANCES[1:]).parent.mkdir(parents=True)
    (tmp_path / INSTANCES[1:]).symlink_to("../../../data/instances")
    driver = make(TEXT)
    assert gib(driver, tree) == 7
    assert "/data, which /etc/fstab names, is not mounted" in driver.degraded(NODE)["disk"]
    mount(ROOT_MOUNT + "24 22 8:33 / /data rw - xfs /dev/sdc1 rw\n")
    assert gib(driver, tree) != 7
    assert driver.degraded(NODE) == {}


def test_of_two_pools_with_one_source_the_first_by_name_counts():
    text = (
        "<pool type='rbd'><name>{}</name><capacity>{}</capacity><source><name>vms</name></source>"
        "</pool>"
    )
    pools = [storage_pool(text.format(name, size)) for name, size in (("b", 1), ("a", 2))]
    for listed in (pools, pools[::-1]):
        chosen = backend_pool(listed, ImageBackend("rbd", "vms"), Path(INSTANCES))
        assert chosen is not None and chosen.name == "a"


def test_the_capacity_of_an_unlimited_file_server_can_be_read():
    assert storage_pool("<pool><capacity>9223372036853727232</capacity></pool>").size > 2**62
