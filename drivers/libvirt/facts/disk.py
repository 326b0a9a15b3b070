"""DISK_GB, and what kind of disk it is: libvirt's storage pool, or a file system."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from xml.etree.ElementTree import Element

from drivers.inventory import DISK_GB, InventoryPolicy, over_reserved, root_inventory
from drivers.libvirt.connection.events import POOLS
from drivers.libvirt.connection.host import Host
from drivers.libvirt.connection.listed import Listed, active_pools
from drivers.libvirt.documents import kib, read, text_of, whole
from drivers.libvirt.facts import file_systems as files
from drivers.libvirt.facts.fact import Look, Subject
from drivers.libvirt.tree.reported import DISK, HostReport

IN_FILES = frozenset({"default", "raw", "flat", "qcow2", "ploop"})
"""Values of ``images_type`` that keep disks as files below ``instances_path``."""

POOL_TYPES = MappingProxyType({"lvm": "logical", "rbd": "rbd", "zfs": "zfs"})
"""The type of libvirt's storage pool, by ``images_type``."""

FILE_POOLS = frozenset({"dir", "fs", "netfs", "gluster", "vstorage"})

SSD, HDD = "STORAGE_DISK_SSD", "STORAGE_DISK_HDD"


@dataclass(frozen=True, slots=True)
class Images:
    """Where disks are kept: ``name`` is that of the volume group or pool, "" for files."""

    kind: str = "default"
    name: str = ""

    @property
    def in_files(self) -> bool:
        """Whether disks are below ``instances_path``."""
        return self.kind in IN_FILES


@dataclass(frozen=True, slots=True)
class StoragePool:
    """One of libvirt's; ``devices`` are paths of the disks that it is made of."""

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
    """``cache`` is where images are whose room is reserved; ``None``: no room is."""

    images: Images
    instances_path: Path
    policy: InventoryPolicy
    cache: Path | None = None
    name: str = DISK

    def ask(self, look: Look) -> Room:
        """Files need no pool: the file system says it as well."""
        listed = look.sources.read_list(POOLS, lambda: _active_pools(look.host), until=POOLS)
        found = listed or Listed()
        documents = map(read, found.documents.values())
        pool = storage_pool(documents, self.images, self.instances_path)
        size = self._size(look) if pool is None else pool.size
        spins = look.sources.read_or("kind of disk", lambda: self._spins(look.host, pool), ())
        no_pool = pool is None and listed is not None and not self.images.in_files
        return Room(size, self._cached(look), spins, found.notes("storage pool"), no_pool)

    def judge(self, answer: Room, of: Subject) -> HostReport:
        """An amount that can't be told stays as Placement has it."""
        if of.disk_elsewhere:
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

    def _size(self, look: Look) -> int | None:
        if not self.images.in_files:
            return None
        path = self.instances_path
        what = f"the size of the file system of {path}"

        def ask() -> int:
            return look.host.on_files(what, lambda root: files.file_system_size(below(root, path)))

        return look.sources.read_or("disk", ask, None)

    def _cached(self, look: Look) -> int:
        cache, path = self.cache, self.instances_path
        if cache is None:
            return 0

        def ask() -> int:
            return look.host.on_files(
                f"the size of images in {cache}",
                lambda root: files.bytes_of_files(below(root, cache), below(root, path)),
            )

        return look.sources.read_or("image cache", ask, 0)

    def _spins(self, host: Host, pool: StoragePool | None) -> tuple[bool | None, ...]:
        """Disks of this machine: those of a pool far away are not among its devices."""
        if self.images.in_files:
            path = self.instances_path
            return host.on_files(
                f"the disk of {path}", lambda root: (files.file_system_spins(root, path),)
            )
        devices = () if pool is None else pool.devices
        return host.on_files(
            "disks", lambda root: tuple(files.device_spins(root, one) for one in devices)
        )


def below(root: Path, path: Path) -> Path:
    """``path`` on the file systems below ``root``."""
    return root / path.relative_to(path.anchor)


def _active_pools(host: Host) -> Listed:
    """None from a libvirt without storage."""
    return host.ask_over_side_connection(
        "storage pools", lambda c: active_pools(c, host.binding, too_little), Listed()
    )


def storage_pool(
    documents: Iterable[Element], images: Images, instances_path: PurePath
) -> StoragePool | None:
    """The pool that guests' disks are in; ``None``: libvirt has none, or not its size."""
    fits = (one for one in documents if _fits(one, images, instances_path))
    return next((pool for one in fits if (pool := _pool(one)) is not None), None)


def too_little(text: str) -> str | None:
    """What an active pool's document lacks."""
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
    found = (device.get("path") for device in document.findall("source/device"))
    devices = tuple(path for path in found if path)
    return StoragePool(text_of(document, "name") or "?", size, devices)


def disk_gb(size: int) -> int:
    """DISK_GB (GiB) of a file system of ``size`` bytes; what is left of a GiB is not counted."""
    return size // 1024**3


def unknown_size(images: Images) -> str:
    """What to do where libvirt has no pool that is the backend."""
    kind = POOL_TYPES.get(images.kind, images.kind)
    return (
        f"[libvirt] images_type = {images.kind}: libvirt has no active storage pool of type"
        f" {kind} with the source {images.name!r}, so its size is not known and DISK_GB stays"
        " as Placement has it; define and start one (virsh pool-define, virsh pool-start)"
    )


def medium_traits(spins: Iterable[bool | None]) -> dict[str, bool]:
    """What the disks below are: all alike and known, or nothing is said of them."""
    kinds = set(spins)
    if len(kinds) != 1 or None in kinds:
        return {}
    (hard,) = kinds
    return {SSD: not hard, HDD: bool(hard)}
