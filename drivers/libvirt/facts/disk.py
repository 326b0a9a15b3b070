"""DISK_GB, and what kind of disk it is: libvirt's storage pool, or a file system."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, ClassVar, Self
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.inventory import DISK_GB, InventoryPolicy, over_reserved, root_inventory
from drivers.libvirt.connection.events import POOLS
from drivers.libvirt.connection.listed import Listed, active_pools
from drivers.libvirt.documents import kib, read, text_of, whole
from drivers.libvirt.facts import file_systems as files
from drivers.libvirt.facts.fact import Sources, Subject
from drivers.libvirt.tree.reported import DISK, HostReport
from drivers.opts import inventory_policy

IN_FILES = frozenset({"default", "raw", "flat", "qcow2", "ploop"})
"""Values of ``images_type`` that keep disks as files below ``instances_path``."""

POOL_TYPES = MappingProxyType({"lvm": "logical", "rbd": "rbd", "zfs": "zfs"})
"""The type of libvirt's storage pool, by ``images_type``."""

NAMED_BY = MappingProxyType(
    {"lvm": "images_volume_group", "rbd": "images_rbd_pool", "zfs": "images_zfs_pool"}
)
"""The option that names where disks are, by ``images_type``."""

FILE_POOLS = frozenset({"dir", "fs", "netfs", "gluster", "vstorage"})

SSD, HDD = "STORAGE_DISK_SSD", "STORAGE_DISK_HDD"


@dataclass(frozen=True, slots=True)
class Images:
    """Where disks are kept: ``name`` is that of the volume group or pool, "" for files."""

    kind: str = "default"
    name: str = ""

    @classmethod
    def of(cls, group: Any) -> Self:
        """Return the fact by ``[libvirt]``.  :raises ValueError: a location is missing."""
        option = NAMED_BY.get(group.images_type)
        name = str(group[option] or "").strip() if option else ""
        if option and not name:
            kind = group.images_type
            raise ValueError(f"[libvirt] images_type = {kind} needs [libvirt] {option}")
        return cls(group.images_type, name)

    @property
    def in_files(self) -> bool:
        """Whether disks are below ``instances_path``."""
        return self.kind in IN_FILES


@dataclass(frozen=True, slots=True)
class StoragePool:
    """A storage pool of libvirt; ``devices`` are paths of its disks."""

    name: str
    size: int
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Room:
    """In bytes: the disk's (``None``: not known), and what cached images take of it.

    ``spins``: whether the disks below it do, as far as that is known; ``unread`` names what
    could not be read.
    """

    size: int | None
    cached: int = 0
    spins: tuple[bool | None, ...] = ()
    unread: Mapping[str, str] = field(default_factory=dict)
    no_pool: bool = False
    """Pools could be listed, and none of them is the backend."""


@dataclass(frozen=True, slots=True)
class Disk:
    """``image_cache`` is where images are whose room is reserved; ``None``: no room is."""

    images: Images
    instances_path: Path
    policy: InventoryPolicy
    image_cache: Path | None = None
    from_sharing_provider: bool = False
    name: ClassVar[str] = DISK

    @classmethod
    def of(cls, context: DriverContext) -> Self:
        """Disks elsewhere (LVM, Ceph) share no room with cached images, which are files."""
        conf = context.conf
        path = Path(conf.instances_path or context.state_path / "instances")
        if not path.is_absolute():
            raise ValueError(f"[DEFAULT] instances_path has to be absolute, not {str(path)!r}")
        images = Images.of(conf.libvirt)
        counts = conf.workarounds.reserve_disk_resource_for_image_cache and images.in_files
        cache = path / conf.image_cache.subdirectory_name if counts else None
        elsewhere = conf.libvirt.disk_from_sharing_provider
        return cls(images, path, inventory_policy(conf), cache, elsewhere)

    def ask(self, sources: Sources) -> Room:
        """Files need no pool: the file system says it as well."""
        binding = sources.host.binding
        listed = sources.listed(POOLS, lambda c: active_pools(c, binding, too_little))
        now = listed or Listed()
        pool = storage_pool(map(read, now.documents.values()), self.images, self.instances_path)
        size = self._size(sources) if pool is None else pool.size
        no_pool = pool is None and listed is not None and not self.images.in_files
        cached, unread = self._cached(sources), now.notes("storage pool")
        return Room(size, cached, self._spins(sources, pool), unread, no_pool)

    def judge(self, answer: Room, of: Subject) -> HostReport:
        """An amount that can't be told stays as Placement has it."""
        if self.from_sharing_provider and of.disk_shared:
            # A trait of the host's own disk says nothing of one that others share.
            return HostReport(traits={SSD: False, HDD: False}, notes=answer.unread)
        traits = medium_traits(answer.spins)
        if answer.size is None:
            notes = {DISK_GB: unknown_size(self.images)} if answer.no_pool else {}
            return HostReport(
                traits=traits,
                notes={**answer.unread, **notes},
                silent=frozenset({self.name}),
                kept=frozenset({DISK_GB}),
            )
        policy, amounts = self._reserving(answer.cached), {DISK_GB: disk_gb(answer.size)}
        return HostReport(
            root_inventory(amounts, policy, of.current),
            traits=traits,
            notes={**answer.unread, **over_reserved(amounts, policy)},
        )

    def _reserving(self, cached: int) -> InventoryPolicy:
        """With what cached images take, in whole GiB, as reserved."""
        own = self.policy.reserved(DISK_GB)
        if not cached:
            return self.policy
        return replace(self.policy, reserved_disk_mb=(own + -(-cached // 1024**3)) * 1024)

    def _size(self, sources: Sources) -> int | None:
        if not self.images.in_files:
            return None
        path = self.instances_path
        return sources.on_files(
            "disk",
            f"the size of the file system of {path}",
            lambda root: files.file_system_size(below(root, path)),
            None,
        )

    def _cached(self, sources: Sources) -> int:
        cache, path = self.image_cache, self.instances_path
        if cache is None:
            return 0
        return sources.on_files(
            "image cache",
            f"the size of images in {cache}",
            lambda root: files.bytes_of_files(below(root, cache), below(root, path)),
            0,
        )

    def _spins(self, sources: Sources, pool: StoragePool | None) -> tuple[bool | None, ...]:
        """Disks of this machine: those of a pool far away are not among its devices."""
        path, devices = self.instances_path, () if pool is None else pool.devices

        def spins(root: Path) -> tuple[bool | None, ...]:
            if self.images.in_files:
                return (files.file_system_spins(root, path),)
            return tuple(files.device_spins(root, one) for one in devices)

        return sources.on_files("kind of disk", f"the disk of {path}", spins, ())


def below(root: Path, path: Path) -> Path:
    """``path`` on the file systems below ``root``."""
    return root / path.relative_to(path.anchor)


def storage_pool(
    documents: Iterable[Element], images: Images, instances_path: PurePath
) -> StoragePool | None:
    """The pool that guests' disks are in; ``None``: libvirt has none, or not its size."""
    fits = (one for one in documents if _fits(one, images, instances_path))
    return next((pool for one in fits if (pool := _pool(one)) is not None), None)


def too_little(text: str) -> str | None:
    """Return what an active pool's document lacks, or ``None``."""
    capacity = text_of(read(text), "capacity")
    return None if whole(capacity) is not None else "gave a document without a capacity"


def _fits(document: Element, images: Images, instances_path: PurePath) -> bool:
    kind = document.get("type")
    if images.in_files:
        target = text_of(document, "target/path")
        return kind in FILE_POOLS and target is not None and PurePath(target) == instances_path
    names = (text_of(document, "source/name"), _vg_of(document))
    return kind == POOL_TYPES.get(images.kind) and images.name in names


def _vg_of(document: Element) -> str | None:
    """A logical pool that names no source is the volume group of its own name."""
    if document.get("type") != "logical" or text_of(document, "source/name"):
        return None
    return text_of(document, "name")


def _pool(document: Element) -> StoragePool | None:
    capacity = document.find("capacity")
    if capacity is None or capacity.get("unit", "bytes") != "bytes":
        size = kib(capacity) * 1024
    else:
        size = whole(capacity.text) or 0
    if not size:
        return None
    paths = (device.get("path") for device in document.findall("source/device"))
    devices = tuple(path for path in paths if path)
    return StoragePool(text_of(document, "name") or "?", size, devices)


def disk_gb(size: int) -> int:
    """DISK_GB (GiB) of a file system of ``size`` bytes; what is left of a GiB is not counted."""
    return size // 1024**3


def unknown_size(images: Images) -> str:
    """Return the note, with its next step, that no pool of libvirt is the backend."""
    kind = POOL_TYPES.get(images.kind, images.kind)
    return (
        f"[libvirt] images_type = {images.kind}: libvirt has no active storage pool of type"
        f" {kind} with the source {images.name!r}, so its size is not known and DISK_GB stays"
        " as Placement has it; define and start one (virsh pool-define, virsh pool-start)"
    )


def medium_traits(spins: Iterable[bool | None]) -> dict[str, bool]:
    """Return the traits of the disks' medium; none unless all are known and alike."""
    kinds = set(spins)
    if len(kinds) != 1 or None in kinds:
        return {}
    (hard,) = kinds
    return {SSD: not hard, HDD: bool(hard)}
