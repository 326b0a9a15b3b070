"""Hosts made of documents, and the trees that they are reported as."""

import dataclasses
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from xml.etree.ElementTree import Element, fromstring

import os_traits

from drivers.api import ComputeDriver, ProviderTree
from drivers.inventory import InventoryPolicy
from drivers.libvirt import documents
from drivers.libvirt.connection.host import Host
from drivers.libvirt.devices.devices import DevicesAnswer
from drivers.libvirt.devices.encryption import EncryptionAnswer
from drivers.libvirt.facts import topology
from drivers.libvirt.facts.cpu_features import CpuFeatures, GuestCpuFeatures, cpu_traits
from drivers.libvirt.facts.cpus_and_memory import CpuAndMemoryAnswer
from drivers.libvirt.facts.disk import DiskAnswer, ImageBackend
from drivers.libvirt.facts.fact import Fact, ReportContext
from drivers.libvirt.facts.numa import MemoryPolicy
from drivers.libvirt.facts.report import FACTS, host_report
from drivers.libvirt.tree import reported
from drivers.libvirt.tree.children import write_report
from drivers.libvirt.tree.reported import HostReport
from reportclient.model import LONGEST_NAME, Allocations, name_problem

NODE = "host1"
ROOT = "c0ffee00-0000-4000-8000-000000000001"
ARCH_TRAITS = frozenset(os_traits.get_traits("HW_ARCH_") + os_traits.get_traits("COMPUTE_ARCH_"))
CPU_TRAITS = frozenset().union(
    *(
        cpu_traits(topology.HostCpu(arch, "a model"), GuestCpuFeatures(frozenset(), True))
        for arch in ("x86_64", "aarch64", "ppc64le")
    )
)
"""All traits that the driver may set or remove, of architectures and of CPUs."""


def capabilities(*cells: str, host: str = "") -> str:
    """A document with these cells (see ``cell``)."""
    return (
        "<capabilities><host><cpu><arch>x86_64</arch><model>EPYC</model></cpu>"
        f"<topology><cells num='{len(cells)}'>{''.join(cells)}</cells></topology>{host}"
        "</host></capabilities>"
    )


def cell(
    number: int,
    cpus: Iterable[int],
    mib: int = 4096,
    pages: Mapping[int, int] | None = None,
    siblings: str | None = None,
) -> str:
    """One cell; ``pages`` by size in KiB."""
    listed = "".join(
        f"<cpu id='{n}' siblings='{siblings if siblings is not None else n}'/>" for n in cpus
    )
    sizes = {4: mib * 256, **(pages or {})}
    counted = "".join(f"<pages unit='KiB' size='{k}'>{n}</pages>" for k, n in sizes.items())
    return (
        f"<cell id='{number}'><memory unit='KiB'>{mib * 1024}</memory>{counted}"
        f"<cpus>{listed}</cpus></cell>"
    )


def two_cells(pages: Mapping[int, int] | None = None) -> str:
    """Four CPUs and 4 GiB in each of two cells."""
    return capabilities(cell(0, range(4), pages=pages), cell(1, range(4, 8), pages=pages))


@dataclasses.dataclass(frozen=True)
class Reading:
    """What was read of a host: its capabilities, its cells, and what its facts answered."""

    capabilities: Element
    cells: tuple[topology.Cell, ...] | None
    answers: Mapping[str, Any]


def facts(**fields: Any) -> dict[str, Fact]:
    """With the defaults, but for ``fields``; each fact takes those that it has."""
    given = {
        "mode": "host-passthrough",
        "images": ImageBackend(),
        "instances_path": Path("/srv"),
        "policy": InventoryPolicy(),
        "memory": MemoryPolicy(),
        "virt_type": "kvm",
        "labels": {},
        **fields,
    }
    names = {kind: {one.name for one in dataclasses.fields(kind)} for kind in FACTS}
    assert set().union(*names.values()) >= fields.keys(), fields
    made = [
        kind(**{name: value for name, value in given.items() if name in names[kind]})
        for kind in FACTS
    ]
    return {one.name: one for one in made}


def reading(text: str = "", memory_mib: int = 8192, **fields: Any) -> Reading:
    """What would be read of a host with this document, or with two cells; all its CPUs are online.

    Facts that are not named here have not been asked: they say nothing.
    """
    document = fromstring(text or two_cells())
    try:
        cells = topology.numa_cells(document) if document.tag == "capabilities" else None
    except ValueError:
        cells = None  # as at a start: nothing was read before
    host_cpu = topology.host_cpu(document)
    fact = CpuFeatures(mode="host-passthrough")
    features = fact.guest_features(host_cpu, [None] * len(fact.cpus_to_expand(host_cpu)))
    ids = document.findall("host/topology/cells/cell/cpus/cpu")
    cpus = frozenset().union(*(documents.parse_cpus(one.get("id")) for one in ids)) or frozenset(
        {0}
    )
    counted = CpuAndMemoryAnswer(
        fields.pop("present_cpus", cpus),
        fields.pop("online_cpus", cpus),
        memory_mib * 1024,
        fields.pop("asleep", {}),
    )
    room = DiskAnswer(
        fields.pop("disk_bytes", 100 * 1024**3),
        fields.pop("cached_bytes", 0),
        (fields.pop("spins", None),),
        no_pool=fields.pop("no_pool", False),
    )
    answers = {
        reported.HOST: counted,
        "disk": room,
        "pmem": fields.pop("pmem_namespaces", frozenset()),
        "architecture": None,
        "CPU features": features,
        reported.PCI: fields.pop("devices", DevicesAnswer()),
        reported.ENCRYPTION: fields.pop(
            "encryption", EncryptionAnswer(Element("domainCapabilities"))
        ),
    }
    assert not fields, fields
    return Reading(document, cells, answers)


def with_disk(host: Host, size: int) -> Host:
    """The file system of its instances is so large, in bytes."""
    read_files = host.read_files

    def told(what: str, job: Any) -> Any:
        return size if what.startswith("the size of the file system") else read_files(what, job)

    host.read_files = told  # type: ignore[method-assign]
    return host


def new_tree() -> ProviderTree:
    tree = ProviderTree()
    tree.new_root(NODE, ROOT)
    return tree


def update(driver: ComputeDriver, tree: ProviderTree | None = None) -> ProviderTree:
    """Let a driver report its node into a tree, by default a new one, and return the tree."""
    tree = new_tree() if tree is None else tree
    driver.update_provider_tree(tree, *driver.get_available_nodes())
    return tree


def report_of(tree: ProviderTree, look: Reading, **fields: Any) -> HostReport:
    found = [tree.data(uuid) for uuid in tree.get_provider_uuids(NODE)]
    known = {data.name: data.inventory for data in found}
    context = ReportContext(NODE, look.capabilities, look.cells, known)
    return host_report(context, look.answers, facts(**fields))


def written(
    tree: ProviderTree, look: Reading, allocations: Allocations | None = None, **fields: Any
) -> ProviderTree:
    """The tree after a period, begun from what Placement has by then."""
    later = ProviderTree(tree.freeze())
    write_report(later, NODE, report_of(tree, look, **fields), allocations)
    return later


def check(tree: ProviderTree) -> None:
    """Placement takes all of it."""
    providers = list(tree.freeze().walk())
    names = [provider.name for provider in providers]
    assert len(names) == len(set(names)) and max(map(len, names)) <= LONGEST_NAME
    for provider in providers:
        _, unknown = os_traits.check_traits(provider.traits)
        assert all(one.startswith("CUSTOM_") for one in unknown), unknown
        assert not [one for one in provider.traits if name_problem(one, "trait")]
        for name, record in provider.inventory.items():
            assert name_problem(name, "resource class") is None
            assert record.total > 0 and record.problem() is None, (provider.name, name)


def totals(tree: ProviderTree, name: str = NODE) -> dict[str, int]:
    """Totals by class."""
    return {key: record["total"] for key, record in tree.data(name).inventory.items()}


def fields(tree: ProviderTree, field: str, name: str = NODE) -> dict[str, Any]:
    """One field of all records that have it, by class."""
    records = tree.data(name).inventory.items()
    return {key: record[field] for key, record in records if field in record}
