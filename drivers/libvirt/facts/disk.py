"""Pure: where guests' disks are, and how much room there is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import PurePath
from types import MappingProxyType
from xml.etree.ElementTree import Element

from drivers.libvirt.documents import kib, read, text_of, whole

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
