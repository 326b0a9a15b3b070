"""What kind of disk a file system is on, of kernels' files as they look on real machines."""

from pathlib import Path, PurePath

import pytest

from drivers.libvirt.facts.disk import device_rotational, file_system_rotational

MOUNTS = """\
22 27 0:21 / /proc rw - proc proc rw
27 1 8:2 / / rw,relatime shared:1 - ext4 /dev/sda2 rw
30 27 259:1 / /var/lib/nova rw - xfs /dev/nvme0n1p1 rw
31 27 0:50 / /srv/btr rw - btrfs /dev/sdb rw
32 27 0:51 / /srv/nfs rw - nfs4 server:/export rw
33 27 254:0 / /srv/with\\040space rw - ext4 /dev/vda rw
34 27 253:0 / /srv/lvm rw - ext4 /dev/mapper/vg-x rw
a line that makes no sense
"""


def disk(root: Path, at: str, rotational: str, numbers: dict[str, str]) -> None:
    """A disk at ``at`` below sys/devices; ``numbers`` of it and its partitions, by name."""
    device = root / "sys/devices" / at
    (device / "queue").mkdir(parents=True)
    (device / "queue/rotational").write_text(f"{rotational}\n")
    for name, number in numbers.items():
        real = device if name == device.name else device / name
        real.mkdir(exist_ok=True)
        for link in (root / "sys/dev/block" / number, root / "sys/class/block" / name):
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(real)


@pytest.fixture
def root(tmp_path):
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(MOUNTS)
    disk(tmp_path, "pci0000:00/ata1/block/sda", "1", {"sda": "8:0", "sda2": "8:2"})
    disk(tmp_path, "pci0000:00/ata2/block/sdb", "1", {"sdb": "8:16"})
    disk(tmp_path, "pci0000:00/nvme0/nvme0n1", "0", {"nvme0n1": "259:0", "nvme0n1p1": "259:1"})
    disk(tmp_path, "pci0000:00/virtio1/block/vda", "1", {"vda": "254:0"})
    disk(tmp_path, "virtual/block/dm-0", "0", {"dm-0": "253:0"})
    return tmp_path


@pytest.mark.parametrize(
    ("path", "spins"),
    [
        ("/var/lib/compute-agent/instances", True),
        ("/var/lib/nova/instances", False),
        ("/srv/btr/instances", True),
        ("/srv/nfs", None),
        ("/srv/with space/x", None),
        ("/srv/lvm/x", False),
    ],
)
def test_the_disk_below_the_longest_mount_decides(root, path, spins):
    assert file_system_rotational(root, PurePath(path)) is spins


def test_a_later_mount_on_the_same_place_hides_the_earlier_one(root):
    file = root / "proc/self/mountinfo"
    file.write_text(MOUNTS + "40 27 8:2 / /var/lib/nova rw - ext4 /dev/sda2 rw\n")
    assert file_system_rotational(root, PurePath("/var/lib/nova")) is True


def test_devices_of_a_volume_group(root):
    assert device_rotational(root, "/dev/nvme0n1p1") is False
    assert device_rotational(root, "/dev/sdb") is True
    assert device_rotational(root, "/dev/vda") is None
    assert device_rotational(root, "/dev/mapper/strange") is None
    assert device_rotational(root, "server:/export") is None
