"""DISK_GB and the traits of the disk: libvirt's storage pool or a file system."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePath
from types import MappingProxyType
from typing import Any, ClassVar, Self
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.inventory import DISK_GB, InventoryPolicy, over_reserved, root_inventory
from drivers.libvirt.connection.events import POOLS
from drivers.libvirt.connection.listed import ListedDocuments, read_documents
from drivers.libvirt.documents import amount_kib, parse_document, text_of, whole_number
from drivers.libvirt.facts import file_systems as files
from drivers.libvirt.facts.fact import ReportContext, Sources
from drivers.libvirt.tree.reported import DISK, HostReport
from drivers.opts import inventory_policy

FILE_IMAGES_TYPES = frozenset({"default", "raw", "flat", "qcow2", "ploop"})
"""Values of ``images_type`` that store disks as files below ``instances_path``."""

POOL_TYPES = MappingProxyType({"lvm": "logical", "rbd": "rbd", "zfs": "zfs"})
"""The type of libvirt's storage pool, by ``images_type``."""

LOCATION_OPTIONS = MappingProxyType(
    {"lvm": "images_volume_group", "rbd": "images_rbd_pool", "zfs": "images_zfs_pool"}
)
"""The option that names the volume group or pool, by ``images_type``."""

FILE_POOLS = frozenset({"dir", "fs", "netfs", "gluster", "vstorage"})

SSD, HDD = "STORAGE_DISK_SSD", "STORAGE_DISK_HDD"


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
        option = LOCATION_OPTIONS.get(group.images_type)
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
    """A storage pool of libvirt: its size in bytes, the paths of its ``devices``."""

    name: str
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
    """Whether the pools could be listed, but none of them is the image backend."""


@dataclass(frozen=True, slots=True)
class Disk:
    """The disk; ``image_cache``: directory whose size is reserved, ``None``: none."""

    images: ImageBackend
    instances_path: Path
    policy: InventoryPolicy
    image_cache: Path | None = None
    from_sharing_provider: bool = False
    name: ClassVar[str] = DISK

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
        return cls(images, path, inventory_policy(conf), cache, is_shared)

    def query_host(self, sources: Sources) -> DiskAnswer:
        """Return the size and kind of the disk: of the storage pool, or of the file system."""
        binding = sources.host.binding
        active = binding.VIR_CONNECT_LIST_STORAGE_POOLS_ACTIVE
        listed = sources.list_documents(
            POOLS,
            lambda c: read_documents(
                c, binding, c.listAllStoragePools(active), "pool", pool_document_problem
            ),
        )
        pools = listed or ListedDocuments()
        pool = storage_pool(
            map(parse_document, pools.documents.values()), self.images, self.instances_path
        )
        size = self._file_system_size(sources) if pool is None else pool.size
        no_pool = pool is None and listed is not None and not self.images.in_files
        cached, unread = self._image_cache_size(sources), pools.notes("storage pool")
        return DiskAnswer(size, cached, self._rotational(sources, pool), unread, no_pool)

    def build_report(self, answer: DiskAnswer, context: ReportContext) -> HostReport:
        """Return DISK_GB and traits; DISK_GB stays as in Placement while the size is unknown."""
        if self.from_sharing_provider and context.disk_shared:
            # Traits of the host's own disk don't describe the shared one.
            return HostReport(traits={SSD: False, HDD: False}, notes=answer.unread)
        traits = medium_traits(answer.rotational)
        if answer.size is None:
            notes = {DISK_GB: no_pool_note(self.images)} if answer.no_pool else {}
            return HostReport(
                traits=traits,
                notes={**answer.unread, **notes},
                silent=frozenset({self.name}),
                unchanged_classes=frozenset({DISK_GB}),
            )
        policy, amounts = self._with_cached_images(answer.cached), {DISK_GB: disk_gb(answer.size)}
        return HostReport(
            root_inventory(amounts, policy, context.current),
            traits=traits,
            notes={**answer.unread, **over_reserved(amounts, policy)},
        )

    def _with_cached_images(self, cached: int) -> InventoryPolicy:
        """Return the policy that also reserves the cached images (bytes), in whole GiB."""
        own = self.policy.reserved(DISK_GB)
        if not cached:
            return self.policy
        return replace(self.policy, reserved_disk_mb=(own + -(-cached // 1024**3)) * 1024)

    def _file_system_size(self, sources: Sources) -> int | None:
        if not self.images.in_files:
            return None
        path = self.instances_path
        return sources.read_files(
            "disk",
            f"the size of the file system of {path}",
            lambda root: files.file_system_size(below(root, path)),
            None,
        )

    def _image_cache_size(self, sources: Sources) -> int:
        directory, path = self.image_cache, self.instances_path
        if directory is None:
            return 0
        return sources.read_files(
            "image cache",
            f"the size of images in {directory}",
            lambda root: files.bytes_of_files(below(root, directory), below(root, path)),
            0,
        )

    def _rotational(self, sources: Sources, pool: StoragePool | None) -> tuple[bool | None, ...]:
        """Return whether each disk of this machine rotates; empty for remote pools."""
        path, devices = self.instances_path, () if pool is None else pool.devices

        def rotational(root: Path) -> tuple[bool | None, ...]:
            if self.images.in_files:
                return (files.file_system_rotational(root, path),)
            return tuple(files.device_rotational(root, device) for device in devices)

        return sources.read_files("kind of disk", f"the disk of {path}", rotational, ())


def below(root: Path, path: Path) -> Path:
    """Return the absolute ``path`` below another root directory."""
    return root / path.relative_to(path.anchor)


def storage_pool(
    documents: Iterable[Element], images: ImageBackend, instances_path: PurePath
) -> StoragePool | None:
    """Return the pool that is the image backend; ``None`` if there is none with a size."""
    candidates = (
        document for document in documents if _is_backend(document, images, instances_path)
    )
    return next(
        (pool for document in candidates if (pool := _parse_pool(document)) is not None), None
    )


def pool_document_problem(text: str) -> str | None:
    """Return what an active pool's document lacks, or ``None``."""
    capacity = text_of(parse_document(text), "capacity")
    return None if whole_number(capacity) is not None else "gave a document without a capacity"


def _is_backend(document: Element, images: ImageBackend, instances_path: PurePath) -> bool:
    kind = document.get("type")
    if images.in_files:
        target = text_of(document, "target/path")
        return kind in FILE_POOLS and target is not None and PurePath(target) == instances_path
    names = (text_of(document, "source/name"), _volume_group(document))
    return kind == POOL_TYPES.get(images.kind) and images.name in names


def _volume_group(document: Element) -> str | None:
    """Return the volume group of a logical pool without a source name: the pool's own name."""
    if document.get("type") != "logical" or text_of(document, "source/name"):
        return None
    return text_of(document, "name")


def _parse_pool(document: Element) -> StoragePool | None:
    capacity = document.find("capacity")
    if capacity is None or capacity.get("unit", "bytes") != "bytes":
        size = amount_kib(capacity) * 1024
    else:
        size = whole_number(capacity.text) or 0
    if not size:
        return None
    paths = (device.get("path") for device in document.findall("source/device"))
    devices = tuple(path for path in paths if path)
    return StoragePool(text_of(document, "name") or "?", size, devices)


def disk_gb(size: int) -> int:
    """Return DISK_GB (whole GiB) for a size in bytes."""
    return size // 1024**3


def no_pool_note(images: ImageBackend) -> str:
    """Return the note that no storage pool is the image backend, with the next step."""
    kind = POOL_TYPES.get(images.kind, images.kind)
    return (
        f"[libvirt] images_type = {images.kind}: libvirt has no active storage pool of type"
        f" {kind} with the source {images.name!r}, so its size is not known and DISK_GB stays"
        " as Placement has it; define and start one (virsh pool-define, virsh pool-start)"
    )


def medium_traits(rotational: Iterable[bool | None]) -> dict[str, bool]:
    """Return the traits of the disks' medium; none unless all are known and alike."""
    kinds = set(rotational)
    if len(kinds) != 1 or None in kinds:
        return {}
    (is_hdd,) = kinds
    return {SSD: not is_hdd, HDD: bool(is_hdd)}
