"""docs/libvirt/ on disk, device models and events: drawn from what is reported."""

from __future__ import annotations

from urllib.parse import quote

import pytest

from computectl.drawing.text_tree import draw_tree
from computectl.shared.screen import Screen
from drivers.libvirt.facts.guest_models import GuestType, TpmChoice, model_traits
from drivers.libvirt.opts import DEFAULT_OPTS, LIBVIRT_OPTS
from tests.agents import NODE, ROOT, Agent
from tests.integration.libvirt_hosts import DocumentedHost, drawn
from tests.integration.test_libvirt_docs import FEATURES, PAGES, block
from tests.unit.libvirt.fake_binding import DATA, FakeDomain
from tests.unit.libvirt.hosts import capabilities, cell
from tests.unit.libvirt.test_disk import pool
from tests.unit.libvirt.test_kept_current import QUIET

GIB = 1024**3
SHARING = "[libvirt]\ndisk_from_sharing_provider = true\n"


def domain_capabilities() -> str:
    """This machine's own, as if OVMF and swtpm were installed."""
    text = (DATA / "domain-pc.xml").read_text()
    text = text.replace("<enum name='firmware'/>", values("firmware", "bios", "efi"))
    text = text.replace("<enum name='secure'>", "<enum name='secure'><value>yes</value>")
    return text.replace(
        "<value>passthrough</value>\n      </enum>",
        "<value>emulator</value></enum>" + values("backendVersion", "1.2", "2.0"),
    )


def values(name: str, *texts: str) -> str:
    return f"<enum name='{name}'>{''.join(f'<value>{text}</value>' for text in texts)}</enum>"


@pytest.fixture
def host(placement, tmp_path):
    cells = [cell(0, range(8), mib=16384)]
    text = capabilities(*cells).replace(
        "</capabilities>",
        "<guest><os_type>hvm</os_type><arch name='x86_64'><machine>pc</machine>"
        "<domain type='kvm'/></arch></guest></capabilities>",
    )
    host = DocumentedHost(placement, tmp_path, text, mib=16384)
    vms = FakeDomain(pool("rbd", "<name>vms</name>", size=str(2000 * GIB)))
    host.binding.answers["listAllStoragePools"] = [vms]
    host.binding.answers["baselineCPU"] = FEATURES
    host.binding.answers["getDomainCapabilities"] = domain_capabilities()
    yield host
    host.close()


def models_drawn(agent: Agent) -> str:
    """The root with the traits that speak of device models, and nothing else."""
    documents = [domain_capabilities()]
    told = model_traits([GuestType("x86_64", "pc", "kvm")], documents, tpm=TpmChoice(True))
    tree = agent.nodes.trackers[ROOT].view.edit()
    tree.update_inventory(ROOT, {})
    tree.update_traits(ROOT, tree.data(ROOT).traits & told.keys())
    return draw_tree(tree.freeze(), ROOT, screen=Screen(width=88))


@pytest.mark.parametrize(("page", "draw"), [("disk", drawn), ("capabilities", models_drawn)])
def test_the_page_draws_what_is_reported_and_its_queries_find_it(host, page, draw):
    agent = host.reported(block(page, "host"))
    assert draw(agent) == block(page, "drawn")
    for line in block(page, "queries").splitlines():
        path = quote(line.removeprefix("GET "), safe="/?=&:,!")
        assert host.placement.request("GET", path)["allocation_requests"], line


def test_the_page_names_all_that_a_quiet_period_asks():
    assert block("events", "quiet").splitlines() == QUIET


@pytest.mark.parametrize("page", ["disk", "capabilities", "events"])
def test_options_of_the_page_exist(page):
    text = (PAGES / f"{page}.rst").read_text().partition("Options\n")[2].partition("\n\nAsk")[0]
    named = text.partition("[libvirt] ")[2].partition("``")[0].replace(",", " ").split()
    assert named and set(named) <= {option.name for option in LIBVIRT_OPTS}
    assert "instances_path" in {option.name for option in DEFAULT_OPTS}


def with_shared_disk(host: DocumentedHost) -> str:
    """A sharing provider of 1000 GB that this host's root can reach; its UUID."""
    stranger = host.placement.stranger
    nfs = stranger.create_provider("nfs")
    stranger.set_inventory(nfs, {"DISK_GB": {"total": 1000}})
    stranger.add_trait(nfs, "MISC_SHARES_VIA_AGGREGATE")
    aggregate = "a9a9a9a9-0000-4000-8000-000000000001"
    stranger.set_aggregates(nfs, [aggregate])
    stranger.set_aggregates(ROOT, [aggregate])
    return nfs


def test_a_shared_disk_is_counted_once_and_found_by_a_query(host):
    host.reported(SHARING)
    with_shared_disk(host)
    agent = host.reported(SHARING)
    assert set(agent.placement.stranger.inventory(ROOT)) == {"VCPU", "MEMORY_MB"}
    found = host.placement.request("GET", "/allocation_candidates?resources=VCPU:1,DISK_GB:600")
    (request,) = found["allocation_requests"]
    assert len(request["allocations"]) == 2
    assert (
        host.placement.stranger.inventory(
            next(uuid for uuid in request["allocations"] if uuid != ROOT)
        )["DISK_GB"]["total"]
        == 1000
    )


def test_guests_that_are_still_on_the_hosts_own_disk_are_drained_and_named(host):
    host.reported(SHARING)
    stranger = host.placement.stranger
    guest = stranger.put_allocation({ROOT: {"DISK_GB": 10, "VCPU": 1}})
    nfs = with_shared_disk(host)
    agent = host.start(SHARING)
    report = agent.period()
    own = stranger.inventory(ROOT)["DISK_GB"]
    assert own["reserved"] == own["total"] > 0
    (told,) = report.texts()
    assert guest in told and NODE in told
    assert stranger.inventory(nfs)["DISK_GB"]["total"] == 1000
    host.placement.request("DELETE", f"/allocations/{guest}")
    report = agent.period()
    assert report.ok, report.texts()
    assert "DISK_GB" not in stranger.inventory(ROOT)
