"""docs/libvirt/: pages on devices draw what is reported, and their queries find it."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from tests.integration.libvirt_hosts import DocumentedHost, drawn
from tests.integration.test_libvirt_docs import FEATURES, block
from tests.unit.libvirt.devices import GPU, NIC, NIC_VF, mdev, pci, sev
from tests.unit.libvirt.fake_binding import FakeDevice
from tests.unit.libvirt.hosts import two_cells

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


@pytest.fixture
def host(placement, tmp_path):
    host = DocumentedHost(placement, tmp_path, two_cells(), mib=8192)
    host.binding.answers["baselineCPU"] = FEATURES
    yield host
    host.close()


@pytest.mark.parametrize("page", PLUGGED)
def test_the_page_draws_what_is_reported_and_its_queries_find_it(host, page):
    host.binding.answers["listAllDevices"] = [FakeDevice(one) for one in PLUGGED[page]]
    host.binding.answers["getDomainCapabilities"] = (
        sev() if page == "encryption" else sev(0, 0, "no")
    )
    agent = host.reported(block(page, "host"))
    assert drawn(agent) == block(page, "drawn")
    for line in block(page, "queries").splitlines():
        path = quote(line.removeprefix("GET "), safe="/?=&:,!")
        assert host.placement.request("GET", path)["allocation_requests"], line
