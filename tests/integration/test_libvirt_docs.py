"""docs/libvirt/: what is drawn is what is reported, and what is asked for is found."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.integration.libvirt_hosts import DocumentedHost, drawn
from tests.unit.libvirt.hosts import capabilities, cell

PAGES = Path(__file__).resolve().parents[2] / "docs" / "libvirt"
MINE = ["cpu", "memory", "numa"]
FEATURES = "<cpu>{}</cpu>".format("".join(f"<feature name='{n}'/>" for n in ("avx2", "aes")))


def block(page: str, name: str) -> str:
    text = (PAGES / f"{page}.rst").read_text()
    found = re.search(rf"^   :name: {name}\n\n((?:    .*\n|\n)+)", text, re.M)
    assert found, f"{page}.rst has no block {name}"
    return re.sub(r"^    ", "", found[1], flags=re.M).strip("\n")


@pytest.fixture
def host(placement, tmp_path):
    """Two cells of four CPUs and 16 GiB, 4 GiB of each as hugepages; one namespace."""
    cells = (cell(n, range(4 * n, 4 * n + 4), mib=16384, pages={2048: 2048}) for n in range(2))
    host = DocumentedHost(placement, tmp_path, capabilities(*cells), mib=32768)
    host.binding.answers["baselineCPU"] = FEATURES
    for number in range(2):
        device = tmp_path / f"sys/bus/nd/devices/namespace{number}.0"
        device.mkdir(parents=True)
        (device / "alt_name").write_text(f"ns{number}\n")
    yield host
    host.close()


@pytest.mark.parametrize("page", MINE)
def test_the_page_draws_what_is_reported_and_its_queries_find_it(host, page):
    agent = host.reported(block(page, "host"))
    assert drawn(agent) == block(page, "drawn")
    for line in block(page, "queries").splitlines():
        path = quote(line.removeprefix("GET "), safe="/?=&:,!")
        assert host.placement.request("GET", path)["allocation_requests"], line
