"""docs/libvirt/: what is drawn is what is reported, and what is asked for is found."""

from collections.abc import Iterator
from urllib.parse import quote

import pytest

from tests.integration.libvirt_hosts import DocumentedHost, drawn
from tests.integration.transcripts import block
from tests.unit.libvirt.devices import GPU, NIC, NIC_VF, mdev, pci, sev
from tests.unit.libvirt.fake_binding import DATA, FakeDevice, FakeDomain
from tests.unit.libvirt.hosts import capabilities, cell, two_cells
from tests.unit.libvirt.test_disk import pool

FEATURES = "<cpu>{}</cpu>".format("".join(f"<feature name='{n}'/>" for n in ("avx2", "aes")))
PF, VFS = "0000:81:00.0", [f"0000:81:02.{n}" for n in range(4)]
GPUS = ["0000:84:00.0", "0000:85:00.0"]
PLUGGED = {
    "pci": [
        pci(PF, NIC, virtual=VFS, cell=1),
        *(pci(one, NIC_VF, physical=PF, cell=1) for one in VFS),
        pci("0000:04:00.0", cell=0),
        *(pci(f"0000:{n:02x}:00.0", GPU, cell=n % 2) for n in range(0xA0, 0xA2)),
    ],
    "vgpu": [
        *(
            pci(at, GPU, types={"nvidia-35": 3, "nvidia-36": 2}, cell=n)
            for n, at in enumerate(GPUS)
        ),
        mdev(1, "nvidia-35", GPUS[0]),
    ],
    "encryption": [],
}
GIB = 1024**3


@pytest.fixture
def documented(placement, tmp_path) -> Iterator[DocumentedHost]:
    host = DocumentedHost(placement, tmp_path, two_cells(), mib=8192)
    host.binding.answers["baselineCPU"] = FEATURES
    yield host
    host.close()


@pytest.fixture
def host(documented: DocumentedHost) -> DocumentedHost:
    """Host with one cell, a pool in Ceph, and the capabilities of this machine's QEMU."""
    text = capabilities(cell(0, range(8), mib=16384)).replace(
        "</capabilities>",
        "<guest><os_type>hvm</os_type><arch name='x86_64'><machine>pc</machine>"
        "<domain type='kvm'/></arch></guest></capabilities>",
    )
    vms = FakeDomain(pool("rbd", "<name>vms</name>", size=str(2000 * GIB)))
    documented.binding.answers |= {
        "getCapabilities": text,
        "getMemoryStats": {"total": 16384 * 1024},
        "listAllStoragePools": [vms],
        "getDomainCapabilities": (DATA / "domain-pc.xml").read_text(),
    }
    return documented


@pytest.fixture
def with_hugepages(documented: DocumentedHost) -> DocumentedHost:
    """Two cells of four CPUs and 16 GiB, 4 GiB of each as hugepages; one namespace."""
    cells = (cell(n, range(4 * n, 4 * n + 4), mib=16384, pages={2048: 2048}) for n in range(2))
    documented.binding.answers["getCapabilities"] = capabilities(*cells)
    documented.binding.answers["getMemoryStats"] = {"total": 32768 * 1024}
    for number in range(2):
        device = documented.directory / f"sys/bus/nd/devices/namespace{number}.0"
        device.mkdir(parents=True)
        (device / "alt_name").write_text(f"ns{number}\n")
        (device / "mode").write_text("dax\n")
    return documented


def expect_the_page(page, host):
    """Expect that a page draws the tree that is reported, and that its queries find it."""
    agent = host.reported(block(f"libvirt/{page}", "host"))
    assert drawn(agent) == block(f"libvirt/{page}", "drawn")
    for line in block(f"libvirt/{page}", "queries").splitlines():
        path = quote(line.removeprefix("GET "), safe="/?=&:,!")
        assert host.placement.request("GET", path)["allocation_requests"], line


@pytest.mark.parametrize("page", ["cpu", "memory", "numa"])
def test_pages_on_cpus_and_memory_draw_what_is_reported(with_hugepages, page):
    expect_the_page(page, with_hugepages)


@pytest.mark.parametrize("page", PLUGGED)
def test_pages_on_devices_draw_what_is_reported(documented, page):
    documented.binding.answers["listAllDevices"] = [FakeDevice(one) for one in PLUGGED[page]]
    told = sev() if page == "encryption" else sev(0, 0, "no")
    documented.binding.answers["getDomainCapabilities"] = told
    expect_the_page(page, documented)


def test_the_page_on_disks_draws_what_is_reported(host):
    expect_the_page("disk", host)
