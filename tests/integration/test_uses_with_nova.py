"""docs/uses.rst and docs/limits.rst: what the pages say, walked with Nova's own services."""

import configparser
import re
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.agent import REPOSITORY, AgentProcess
from tests.servers.databases import MariaDB
from tests.servers.nova import Nova
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ

PAGE = (REPOSITORY / "docs" / "uses.rst").read_text()
LICENCE = "CUSTOM_LICENCE"
NO_HOST = "No valid host was found"

pytestmark = [pytest.mark.slow, pytest.mark.needs("nova", "rabbitmq", "mariadb")]
of_nova = pytest.mark.faults
"""Only another version of Nova changes what this shows."""


def blocks(language: str) -> list[str]:
    """The page's blocks of code in this language."""
    found = re.findall(rf"^\.\. code-block:: {language}\n\n((?:    .*\n|\n)+)", PAGE, re.MULTILINE)
    return [textwrap.dedent(text) for text in found]


class Host:
    """A host with nova-compute, and with this agent beside it."""

    def __init__(self, directory: Path, name: str, placement: RealPlacement) -> None:
        self.name, self.placement = name, placement
        self.site = directory / name / "site"
        (self.site / "disks").mkdir(parents=True)
        self.agent = AgentProcess(directory / name, placement.url)
        self.agent.compute_driver = "licences,local_disks,cooling"
        self.agent.options = "[compute]\nroot_provider = attach\nremoved_child_delay = 0\n"
        self.agent.write()
        text = self.agent.config.read_text().replace("host = testhost", f"host = {name}")
        self.agent.config.write_text(text)
        self.agent.add_drivers(self._install(directory / name / "lib"))

    def _install(self, lib: Path) -> Path:
        info = lib / "site_drivers-1.0.dist-info"
        info.mkdir(parents=True)
        code = "\n\n".join(blocks("python")).replace("/etc/site", str(self.site))
        (lib / "site_drivers.py").write_text(code)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-drivers\nVersion: 1.0\n")
        parser = configparser.ConfigParser()
        parser.read_string(blocks("ini")[0])
        (group, named), *_ = parser["options.entry_points"].items()
        lines = "\n".join(line.strip() for line in named.strip().splitlines())
        (info / "entry_points.txt").write_text(f"[{group}]\n{lines}\n")
        return lib

    def report(self) -> str:
        """One period of the agent; what it logged."""
        ended = self.agent.once()
        # 1: reported, and something is unhealthy or drained.
        assert ended.returncode in (0, 1) and "Traceback" not in ended.stderr, ended.stderr
        return ended.stdout + ended.stderr

    def providers(self) -> dict[str, str]:
        """The UUIDs of this host's tree, by name."""
        listed = self.placement.providers()
        roots = {one["uuid"] for one in listed if one["name"] == self.name}
        return {one["name"]: one["uuid"] for one in listed if one["root_provider_uuid"] in roots}


class Cloud:
    """Nova with two hosts, and an agent on each."""

    def __init__(self, nova: Nova, placement: RealPlacement, directory: Path) -> None:
        self.nova, self.placement = nova, placement
        self.hosts = {name: Host(directory, name, placement) for name in nova.hosts}
        for command in re.findall(r"flavor set (\S+) --property (\S+)=(\S+)", PAGE):
            nova.flavor(command[0], **{command[1]: command[2]})
        nova.flavor("plain")

    def report(self) -> None:
        """One period of each agent."""
        for host in self.hosts.values():
            host.report()

    def built(self, flavor: str, host: str | None = None) -> str:
        """Build a guest; its UUID."""
        guest = self.nova.build(flavor, host)
        assert guest["status"] == "ACTIVE", guest.get("fault")
        return str(guest["id"])

    def refused(self, flavor: str, host: str | None = None) -> None:
        """Try to build a guest for which there is no host."""
        guest = self.nova.build(flavor, host)
        assert guest["status"] == "ERROR" and NO_HOST in guest["fault"]["message"], guest
        self.nova.delete(guest["id"])

    def host_of(self, guest: str) -> str:
        return str(self.nova.request("GET", f"/servers/{guest}")["server"]["OS-EXT-SRV-ATTR:host"])

    def allocation(self, guest: str) -> dict[str, dict[str, int]]:
        """What a guest has, by the provider's name."""
        listed = self.placement.providers()
        names = {one["uuid"]: one["name"] for one in listed}
        found = self.placement.request("GET", f"/allocations/{guest}")["allocations"]
        return {names[uuid]: each["resources"] for uuid, each in found.items()}


@pytest.fixture(scope="module")
def cloud(placement_server: RealPlacement, tmp_path_factory: Any) -> Iterator[Cloud]:
    """Nova's services start once for all tests."""
    placement_server.start()
    placement_server.empty()
    directory = tmp_path_factory.mktemp("cloud")
    with RabbitMQ() as broker, MariaDB("/dev/shm") as database:
        with Nova(directory / "nova", broker.url, database, placement_server.url) as nova:
            cloud = Cloud(nova, placement_server, directory)
            cloud.report()
            yield cloud


def test_licences_are_counted_and_given_back(cloud: Cloud) -> None:
    first = cloud.hosts["compute1"]
    (first.site / "licences").write_text("2")
    cloud.report()
    guests = [cloud.built("licensed") for _ in range(2)]
    assert [cloud.host_of(guest) for guest in guests] == ["compute1", "compute1"]
    assert cloud.allocation(guests[0])["compute1_licences"] == {"CUSTOM_LICENCE": 1}
    cloud.refused("licensed")
    cloud.nova.delete(guests.pop())
    guests.append(cloud.built("licensed"))

    (first.site / "licences").write_text("1")
    cloud.report()
    assert all("compute1_licences" in cloud.allocation(guest) for guest in guests)
    cloud.nova.delete(guests.pop())
    cloud.refused("licensed")
    cloud.nova.delete(guests.pop())


def test_a_disk_goes_with_its_guest(cloud: Cloud) -> None:
    second = cloud.hosts["compute2"]
    (second.site / "disks" / "sdb").write_text("")
    (second.site / "disks" / "sdc").write_text("broken")
    cloud.report()
    guest = cloud.built("with-disk")
    assert cloud.allocation(guest)["compute2_disk_sdb"] == {"CUSTOM_LOCAL_DISK": 1}
    cloud.refused("with-disk")

    (second.site / "disks" / "sdb").unlink()
    cloud.report()
    cloud.report()
    assert "compute2_disk_sdb" in cloud.allocation(guest)
    cloud.nova.delete(guest)
    cloud.refused("with-disk")
    for _ in range(3):
        cloud.report()
    assert "compute2_disk_sdb" not in cloud.hosts["compute2"].providers()


def test_a_trait_takes_a_host_out_for_the_flavors_that_forbid_it(cloud: Cloud) -> None:
    first = cloud.hosts["compute1"]
    fault = first.site / "cooling-fault"
    fault.write_text("")
    cloud.report()
    cloud.refused("hot", "compute1")
    guests = [cloud.built("hot"), cloud.built("plain", "compute1")]
    assert [cloud.host_of(guest) for guest in guests] == ["compute2", "compute1"]
    fault.unlink()
    cloud.report()
    guests.append(cloud.built("hot", "compute1"))
    for guest in guests:
        cloud.nova.delete(guest)


@of_nova
def test_novas_repair_of_allocations_fails_on_a_class_that_is_on_a_child(cloud: Cloud) -> None:
    (cloud.hosts["compute1"].site / "licences").write_text("4")
    cloud.report()
    guest = cloud.built("licensed")
    heal = ("placement", "heal_allocations", "--verbose")
    assert "up-to-date" in cloud.nova.manage(*heal, expect=4)
    cloud.placement.stranger.delete_allocation(guest)
    said = cloud.nova.manage(*heal, expect=3)
    assert f"Failed to update allocations for consumer {guest}" in said
    assert cloud.allocation(guest) == {}

    # What the page says to do instead.
    tree = cloud.hosts["compute1"].providers()
    uses = {"compute1": {"VCPU": 1, "MEMORY_MB": 64}, "compute1_licences": {LICENCE: 1}}
    body = {
        "allocations": {tree[name]: {"resources": used} for name, used in uses.items()},
        "project_id": "project",
        "user_id": "user",
        "consumer_generation": None,
    }
    cloud.placement.request("PUT", f"/allocations/{guest}", json=body, microversion="1.28")
    assert "up-to-date" in cloud.nova.manage(*heal, expect=4)
    cloud.nova.delete(guest)


@of_nova
def test_novas_audit_finds_no_allocation_on_the_agents_children(cloud: Cloud) -> None:
    stranger, tree = cloud.placement.stranger, cloud.hosts["compute1"].providers()
    on_nova = stranger.put_allocation({tree["compute1"]: {"VCPU": 1}})
    on_child = stranger.put_allocation({tree["compute1_licences"]: {LICENCE: 1}})
    said = cloud.nova.manage("placement", "audit", "--verbose", "--delete", expect=4)
    assert f"Deleted allocations for consumer UUID {on_nova}" in said
    assert cloud.allocation(on_nova) == {}
    assert cloud.allocation(on_child) == {"compute1_licences": {LICENCE: 1}}
    stranger.delete_allocation(on_child)


def test_the_agents_children_come_back_after_novas_service_is_deleted(cloud: Cloud) -> None:
    nova, second = cloud.nova, cloud.hosts["compute2"]
    (second.site / "licences").write_text("1")
    second.report()
    before = second.providers()
    assert "compute2_licences" in before
    nova.stop_compute("compute2")
    nova.delete_service("compute2")
    assert second.providers() == {}
    nova.start_compute("compute2")
    nova.manage("cell_v2", "discover_hosts")
    second.report()
    assert second.providers().keys() == before.keys()  # the fake driver's root has another UUID


@of_nova
def test_without_nova_compute_nova_builds_nothing_and_stops_nothing(cloud: Cloud) -> None:
    """Whether this agent reports the host or not: to Nova it is a host whose service is down.

    The last test: Nova's fake driver has no compute_id, without which the host can't start again.
    """
    nova = cloud.nova
    guest = cloud.built("plain", "compute1")
    nova.stop_compute("compute1")
    cloud.refused("plain", "compute1")
    moved = {"host": None, "block_migration": "auto"}
    nova.request("POST", f"/servers/{guest}/action", {"os-migrateLive": moved}, expect=202)
    nova.until(lambda: nova.task(guest) is None, "the migration has not ended")
    assert cloud.host_of(guest) == "compute1"
    nova.request("POST", f"/servers/{guest}/action", {"os-stop": None}, expect=202)
    assert nova.task(guest) == "powering-off", "it waits for ever"
    nova.delete(guest)
    assert cloud.allocation(guest) == {}, "though nobody has told the hypervisor"
