"""DISK_GB and the traits of the disk: libvirt's storage pool or a file system.

The functions that read files get the root of the host's file systems.  They may block, so they run
in a thread (``Host.read_files``).
"""

import math
import os
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from typing import Any, ClassVar, Self

from drivers.api import DriverContext
from drivers.errors import DriverNotReady
from drivers.inventory import DISK_GB, InventoryPolicy, over_reserved, root_inventory
from drivers.libvirt.connection.events import POOLS
from drivers.libvirt.connection.host import file_text
from drivers.libvirt.documents import amount_bytes, parse_document, text_of
from drivers.libvirt.facts.ceph import CephCluster
from drivers.libvirt.facts.fact import ListedDocuments, ReportContext, Sources, read_documents
from drivers.libvirt.tree.reported import HostReport
from drivers.opts import inventory_policy

FILE_IMAGES_TYPES = frozenset({"default", "raw", "flat", "qcow2", "ploop"})
"""Values of ``images_type`` that store disks as files below ``instances_path``."""

BACKENDS = {
    "lvm": ("logical", "images_volume_group"),
    "rbd": ("rbd", "images_rbd_pool"),
    "zfs": ("zfs", "images_zfs_pool"),
}
"""By ``images_type``: the type of libvirt's storage pool, and the option that names the volume
group or pool."""

MOUNTED_POOLS = frozenset({"fs", "netfs", "gluster", "vstorage"})
FILE_POOLS = MOUNTED_POOLS | {"dir"}

SSD, HDD = "STORAGE_DISK_SSD", "STORAGE_DISK_HDD"

VIRTUAL = re.compile(r"/(virtio\d+|vbd-\d+|loop\d+|ram\d+|zram\d+|nbd\d+|rbd\d+)(/|$)")
"""Devices whose kind of disk is unknown."""
_ESCAPED = re.compile(r"\\([0-7]{3})")
GIB = 1024**3


@dataclass(frozen=True, slots=True)
class ImageBackend:
    """Nova's image backend; ``name`` of its volume group or pool, "" for files."""

    kind: str = "default"
    name: str = ""

    @classmethod
    def from_conf(cls, group: Any) -> Self:
        """Return the image backend by the options of ``[libvirt]``.

        :raises ValueError: the option with its location is not set.
        """
        _, option = BACKENDS.get(group.images_type, ("", ""))
        name = str(group[option] or "").strip() if option else ""
        if option and not name:
            kind = group.images_type
            raise ValueError(f"[libvirt] images_type = {kind} needs [libvirt] {option}")
        return cls(group.images_type, name)

    @property
    def in_files(self) -> bool:
        """Whether disks are files below ``instances_path``."""
        return self.kind in FILE_IMAGES_TYPES


@dataclass(frozen=True, slots=True)
class StoragePool:
    """A storage pool of libvirt: its size in bytes (0: not started), the paths of its ``devices``.

    ``kind`` is its type; ``source`` the name of a volume group or pool, ``target`` the path of a
    directory.
    """

    kind: str | None
    name: str | None
    source: str | None
    target: str | None
    size: int
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DiskAnswer:
    """Bytes of the disk (``None``: unknown), and of the cached images on it.

    ``rotational``: whether each physical disk rotates, ``None`` where unknown; ``unread``: why
    storage pools could not be read, by name.
    """

    size: int | None
    cached: int = 0
    rotational: tuple[bool | None, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    no_pool: bool = False
    """Whether the pools could be listed, none of them is the image backend, and nothing else is."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk; ``image_cache``: directory whose size is reserved, ``None``: none.

    ``ceph`` is asked where libvirt has no storage pool.
    """

    images: ImageBackend
    instances_path: Path
    policy: InventoryPolicy
    image_cache: Path | None = None
    from_sharing_provider: bool = False
    ceph: CephCluster | None = None
    name: ClassVar[str] = "disk"

    @classmethod
    def from_context(cls, context: DriverContext) -> Self:
        """Return the fact with its options; the image cache counts only where disks are files.

        :raises ValueError: an option is invalid; the message names it.
        """
        conf = context.conf
        path = Path(conf.instances_path or context.state_path / "instances")
        if not path.is_absolute():
            raise ValueError(f"[DEFAULT] instances_path has to be absolute, not {str(path)!r}")
        images = ImageBackend.from_conf(conf.libvirt)
        reserves_cache = conf.workarounds.reserve_disk_resource_for_image_cache and images.in_files
        cache = path / conf.image_cache.subdirectory_name if reserves_cache else None
        is_shared = conf.libvirt.disk_from_sharing_provider
        ceph = CephCluster.from_conf(conf.libvirt) if images.kind == "rbd" else None
        return cls(images, path, inventory_policy(conf), cache, is_shared, ceph)

    def query_host(self, sources: Sources) -> DiskAnswer:
        """Return the size and kind of the disk: of the storage pool, or of the file system."""
        binding, images, path = sources.host.binding, self.images, self.instances_path
        listed = sources.list_documents(POOLS, lambda c: list_pools(c, binding), optional=True)
        pools = listed or ListedDocuments()
        pool = backend_pool(pools.documents.values(), images, path)
        size, cached = None if pool is None else pool.size, 0

        def place(root: Path) -> PurePath:
            return mounted(root, path, pools.documents.values())

        def size_in_files(root: Path) -> int:
            if pool is None:
                return file_system_size(below(root, place(root)))
            if pool.kind == "dir":  # libvirt does not know what should be mounted there
                place(root)
            return pool.size

        if images.in_files:
            what = f"the size of the {'pool' if pool else 'file system'} of {path}"
            size = sources.read_files("disk", what, size_in_files, None)
        if pool is None and self.ceph is not None:
            size = sources.fetch_or_default("ceph", self.ceph.size, None, until_event=POOLS)
        if self.image_cache is not None:
            directory = self.image_cache
            cached = sources.read_files(
                "image cache",
                f"the size of images in {directory}",
                lambda root: bytes_of_files(below(root, directory), below(root, place(root))),
                0,
            )
        devices = () if pool is None else pool.devices  # none of a remote pool is on this machine

        def rotational(root: Path) -> tuple[bool | None, ...]:
            if images.in_files:
                return (file_system_rotational(root, place(root)),)
            return tuple(device_rotational(root, device) for device in devices)

        kinds = sources.read_files("kind of disk", f"the disk of {path}", rotational, ())
        no_pool = pool is None and listed is not None and images.kind in {"lvm", "zfs"}
        return DiskAnswer(size, cached, kinds, pools.notes("storage pool"), no_pool)

    def build_report(self, answer: DiskAnswer, context: ReportContext) -> HostReport:
        """Return DISK_GB and traits; DISK_GB stays as in Placement while the size is unknown."""
        if self.from_sharing_provider and context.disk_shared:
            # Traits of the host's own disk don't describe the shared one.
            return HostReport(traits={SSD: False, HDD: False}, notes=answer.unread)
        kinds, traits = set(answer.rotational), dict[str, bool]()
        if kinds in ({True}, {False}):
            traits = {SSD: kinds == {False}, HDD: kinds == {True}}
        if answer.size is None:
            notes = dict(answer.unread)
            if answer.no_pool:
                kind = self.images.kind
                notes[DISK_GB] = (
                    f"[libvirt] images_type = {kind}: libvirt has no active storage pool of type"
                    f" {BACKENDS[kind][0]} with the source {self.images.name!r}, so its"
                    " size is not known and DISK_GB stays as Placement has it; define and start one"
                    " (virsh pool-define, virsh pool-start)"
                )
            return HostReport(
                traits=traits,
                notes=notes,
                unanswered=frozenset({self.name}),
                unchanged_classes=frozenset({DISK_GB}),
            )
        amounts, policy = {DISK_GB: answer.size // GIB}, self.policy
        if answer.cached:  # reserved too, in whole GiB
            reserved = policy.reserved(DISK_GB) + math.ceil(answer.cached / GIB)
            policy = replace(policy, reserved_disk_mb=reserved * 1024)
        return HostReport(
            root_inventory(amounts, policy, context.current),
            traits=traits,
            notes={**answer.unread, **over_reserved(amounts, policy)},
        )


def below(root: Path, path: PurePath) -> Path:
    """Return the absolute ``path`` below another root directory."""
    return root / path.relative_to(path.anchor)


def mounted(root: Path, path: PurePath, pools: Iterable[StoragePool]) -> PurePath:
    """Return the absolute ``path`` without links, of the file systems below ``root``.

    :raises DriverNotReady: a file system that holds it, by /etc/fstab or as the target of a
        storage pool, is not mounted.
    """
    mounts = {_unescaped(fields[4]) for fields in _table(root / "proc/self/mountinfo", 5)}
    steps = {
        _unescaped(fields[1]): ("which /etc/fstab names", "mount it")
        for fields in _table(root / "etc/fstab", 2)
        if not fields[0].startswith("#")
    }
    for pool in pools:
        if pool.kind in MOUNTED_POOLS and pool.target and not pool.size:
            step = f"virsh pool-start {pool.name}"
            steps[PurePath(pool.target)] = f"the target of storage pool {pool.name}", step
    if path not in mounts:  # looking into a mount can block
        real = os.path.realpath(below(root, path))
        path = PurePath("/", os.path.relpath(real, os.path.realpath(root)))
    for point, (origin, step) in steps.items():
        if path.is_relative_to(point) and point not in mounts:
            raise DriverNotReady(f"{point}, {origin}, is not mounted: {step}")
    return path


def _table(file: Path, columns: int) -> list[list[str]]:
    """Return the fields of the lines that have so many; none if the file can't be read."""
    lines = file_text(file).splitlines()
    return [fields for fields in map(str.split, lines) if len(fields) >= columns]


def _unescaped(text: str) -> PurePath:
    return PurePath(_ESCAPED.sub(lambda escaped: chr(int(escaped[1], 8)), text))


def list_pools(connection: Any, binding: Any) -> ListedDocuments[StoragePool]:
    """Return all pools, those that are not started without a size."""
    inactive, active = (
        read_documents(connection, binding, connection.listAllStoragePools(flag), storage_pool)
        for flag in (
            binding.VIR_CONNECT_LIST_STORAGE_POOLS_INACTIVE,
            binding.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE,
        )
    )
    stopped = {name: replace(pool, size=0) for name, pool in inactive.documents.items()}
    return ListedDocuments(stopped | active.documents, inactive.unread | active.unread)


def storage_pool(text: str) -> StoragePool:
    """Return the pool of a document.

    :raises ValueError: the capacity is missing or invalid.
    """
    document = parse_document(text, "pool")
    capacity = document.find("capacity")
    if capacity is None:
        raise ValueError("a document without a capacity")
    try:
        size = amount_bytes(capacity, unit="bytes")
    except ValueError as err:
        raise ValueError(f"a document that can't be right: {err}") from None
    paths = (device.get("path") for device in document.findall("source/device"))
    return StoragePool(
        document.get("type"),
        text_of(document, "name"),
        text_of(document, "source/name"),
        text_of(document, "target/path"),
        size,
        tuple(path for path in paths if path),
    )


def backend_pool(
    pools: Iterable[StoragePool], images: ImageBackend, instances_path: PurePath
) -> StoragePool | None:
    """Return the pool that is the image backend, of several the first by name; ``None`` if there is
    none with a size.
    """
    for pool in sorted(pools, key=lambda each: each.name or ""):
        if images.in_files:
            is_path = pool.target is not None and PurePath(pool.target) == instances_path
            is_backend = pool.kind in FILE_POOLS and is_path
        else:
            # A logical pool without a source name has the volume group of its own name.
            group = pool.name if pool.kind == "logical" and not pool.source else None
            named = images.name in (pool.source, group)
            is_backend = pool.kind == BACKENDS[images.kind][0] and named
        if is_backend and pool.size:
            return pool
    return None


def file_system_size(path: Path) -> int:
    """Return the size in bytes of the file system of ``path``, or of its nearest existing parent.

    :raises DriverNotReady: the file system can't be read.
    """
    try:
        nearest = next(place for place in (path, *path.parents) if place.exists())
        file_system = os.statvfs(nearest)
    except OSError as err:
        raise DriverNotReady(f"can't read the size of the file system of {path}: {err}") from err
    if not file_system.f_blocks:
        raise DriverNotReady(f"the file system of {path} reports a size of 0 blocks")
    return file_system.f_blocks * file_system.f_frsize


def bytes_of_files(directory: Path, reference: Path) -> int:
    """Return the bytes of the files in a directory.

    0 if it does not exist, or is on another file system than ``reference``; files that are removed
    meanwhile don't count.

    :raises DriverNotReady: the directory can't be read.
    """
    total = 0
    try:
        if directory.stat().st_dev != reference.stat().st_dev:
            return 0
        for entry in os.scandir(directory):
            with suppress(FileNotFoundError):
                total += entry.stat().st_blocks * 512 if entry.is_file() else 0
    except FileNotFoundError:
        return 0
    except OSError as err:
        raise DriverNotReady(f"can't read the size of the files in {directory}: {err}") from err
    return total


def file_system_rotational(root: Path, path: PurePath) -> bool | None:
    """Return whether the disk that holds ``path`` rotates; ``None``: unknown."""
    holder: list[str] = []
    mounts = _table(root / "proc/self/mountinfo", 5)
    for fields in sorted(mounts, key=lambda it: len(_unescaped(it[4]).parts)):
        if "-" in fields[:-2] and path.is_relative_to(_unescaped(fields[4])):
            holder = fields  # a later mount hides an earlier one
    if not holder:
        return None
    if not holder[2].startswith("0:"):
        return _rotational(root / "sys/dev/block" / holder[2])
    return device_rotational(root, holder[holder.index("-") + 2])


def device_rotational(root: Path, device: str) -> bool | None:
    """Return whether ``/dev/sda`` or ``/dev/sda1`` rotates; ``None``: unknown."""
    if not device.startswith("/dev/"):
        return None
    return _rotational(root / "sys/class/block" / PurePath(device).name)


def _rotational(link: Path) -> bool | None:
    """Return the flag ``rotational`` of a block device, or of a partition's disk."""
    try:
        device = link.resolve(strict=True)
        if VIRTUAL.search(device.as_posix()):
            return None
        disk = device if (device / "queue").is_dir() else device.parent
        value = (disk / "queue/rotational").read_text(errors="replace").strip()
    except OSError:  # the kernel's files can't be read
        return None
    return {"0": False, "1": True}.get(value)
