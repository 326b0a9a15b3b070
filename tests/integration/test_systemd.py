"""The unit under a real systemd: one boot for all; the services start together."""

import re
import shutil
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from agent import opts
from tests.kit.installed import SICK, install
from tests.servers.nspawn import REPOSITORY, Container, missing
from tests.servers.placement import RealPlacement
from tests.servers.systemd_host import QUICK, SystemdHost

INSTALL = REPOSITORY / "docs" / "install.rst"
SHORT_WATCHDOG = f"{QUICK}WatchdogSec=10\nTimeoutAbortSec=5\n"
PLACEMENT = "[placement]\nauth_type = admin_token\ntoken = admin\nendpoint = {url}\n"
EAGER = "periodic_fuzzy_delay = 0\nupdate_resources_interval = 1\n"
SOON_DONE = f"{EAGER}graceful_shutdown_timeout = 2\n"
HANGS = """
self.calls = getattr(self, "calls", 0) + 1
if self.calls > 1:
    time.sleep(100000)
"""


@dataclass
class Host(SystemdHost):
    """The container and the servers that its services talk to."""

    placement: RealPlacement
    silent_url: str
    closed_url: str

    def add(
        self,
        name: str,
        options: str,
        drop_in: str = QUICK,
        url: str | None = None,
        driver: str = "fake",
    ) -> None:
        """A service that reports a host, by default a scripted one."""
        text = f"[DEFAULT]\nhost = {name}\ncompute_driver = {driver}\n"
        text += f"state_path = /var/lib/{name}\n"
        text += options + PLACEMENT.format(url=url or self.placement.url)
        self.add_service(name, f"/etc/compute-agent/{name}.conf", text, drop_in)


@pytest.fixture(scope="module")
def host(
    tmp_path_factory: pytest.TempPathFactory, placement_server: RealPlacement
) -> Iterator[Host]:
    scratch = tmp_path_factory.mktemp("nspawn")
    reason = missing(scratch / "try")
    if reason is not None:
        pytest.skip(reason)
    placement_server.start()
    placement_server.empty()
    with (
        socket.create_server(("127.0.0.1", 0)) as silent,
        socket.socket() as closed,
        Container(scratch) as container,
    ):
        closed.bind(("127.0.0.1", 0))  # bound and not listening: every connection is refused
        urls = [f"http://127.0.0.1:{server.getsockname()[1]}" for server in (silent, closed)]
        host = Host(container, "compute-agent", placement_server, *urls)
        host.install("agent.main", INSTALL, "install")
        _add_services(host)
        yield host


def _add_services(host: Host) -> None:
    host.add("steady", EAGER, SHORT_WATCHDOG)
    site = install(host.container.root / "opt/hangs", "sick", SICK)
    seen = f"{SHORT_WATCHDOG}Environment=PYTHONPATH=/opt/{site.name}\n"
    script = f"{SOON_DONE}[fake]\nscript = /opt/{site.name}/hangs.yaml\n"
    host.add("hangs", script, seen, driver="sick")
    host.container.write(f"/opt/{site.name}/hangs.yaml", "nodes: {hangs: {inventory: {VCPU: 4}}}")
    host.container.write(f"/opt/{site.name}/deed.py", HANGS)
    host.add("silent", SOON_DONE, url=host.silent_url)
    host.add("refused", EAGER, url=host.closed_url)
    host.add("broken", f"{SOON_DONE}update_resource_interval = 5\n")
    host.add("patient", "update_resources_interval = 1000\nperiodic_fuzzy_delay = 20\n")
    for name in ("patient", "late"):  # a new host does not wait
        root = f"/var/lib/{name}/root-9d6ba763-8e93-5284-b069-776c52a0868f.json"
        host.container.write(root, "{}")
    host.add("late", "update_resources_interval = 1000\nperiodic_fuzzy_delay = 1000000\n")
    host.start("steady", "hangs", "silent", "refused", "broken", "patient", "late")


pytestmark = pytest.mark.real_systemd


def test_what_the_manual_installs_is_the_shipped_unit(host: Host) -> None:
    installed = host.container.root / "etc/systemd/system/compute-agent.service"
    assert installed.read_text() == host.unit.read_text()
    sample = host.container.run("stat", "-c", "%a %U:%G", "/etc/compute-agent/compute-agent.conf")
    assert sample == "640 root:compute-agent"


def test_a_service_is_ready_after_its_first_period_as_its_own_user(host: Host) -> None:
    host.until_active("steady")
    host.until_status("steady", "1 node reported to Placement")
    found = host.placement.request("GET", "/resource_providers?name=steady")
    assert len(found["resource_providers"]) == 1
    own = host.container.run("cat", "/var/lib/steady/compute_id")
    assert found["resource_providers"][0]["uuid"] == own
    pid = host.show("steady", "MainPID")
    owner = host.container.run("stat", "-c", "%U:%G", f"/proc/{pid}")
    assert owner == "compute-agent:compute-agent"


def test_a_broken_configuration_is_not_tried_again(host: Host) -> None:
    host.until("broken", lambda: host.show("broken", "ActiveState") == "failed")
    assert host.show("broken", "ExecMainStatus") == "2"
    said = r"broken\.conf:\d: no option update_resource_interval in \[DEFAULT\]"
    assert re.search(said, host.log("broken"))
    time.sleep(0.5)  # longer than RestartSec
    assert host.show("broken", "NRestarts") == "0"
    assert host.show("broken", "ActiveState") == "failed"


def test_the_journal_knows_what_is_a_warning(host: Host) -> None:
    host.until_active("refused")
    host.until_status("refused", "degraded: no answer to GET /resource_providers")
    arguments = ("-u", "refused", "-o", "cat", "--no-pager")
    warnings = host.container.run("journalctl", "-p", "warning", *arguments)
    assert "no answer to GET /resource_providers" in warnings
    assert "Reporting" not in warnings
    for line in host.container.run("journalctl", *arguments).splitlines():
        assert not re.match(r"<|\d{4}-", line)


def test_a_late_first_report_is_announced(host: Host) -> None:
    host.until_active("late")
    assert re.match(r"first report in \d+ s", host.show("late", "StatusText"))


def test_kill_9_is_followed_by_a_restart_with_the_same_identity(host: Host) -> None:
    host.until_active("steady")
    before = host.container.run("cat", "/var/lib/steady/compute_id")
    restarts = int(host.show("steady", "NRestarts"))
    host.container.run("systemctl", "kill", "--signal=KILL", "steady")
    host.until("steady", lambda: int(host.show("steady", "NRestarts")) > restarts)
    host.until_status("steady", "1 node reported")
    assert host.container.run("cat", "/var/lib/steady/compute_id") == before


def test_a_frozen_process_is_ended_by_the_watchdog(host: Host) -> None:
    host.until_active("steady")
    frozen = host.show("steady", "MainPID")
    host.container.run("kill", "-STOP", frozen)
    host.until("steady", lambda: host.show("steady", "MainPID") not in (frozen, "0"))
    host.until_status("steady", "1 node reported")
    assert "Watchdog timeout" in host.log("steady")


def test_a_driver_that_hangs_is_ended_by_the_watchdog_and_named(host: Host) -> None:
    host.until("hangs", lambda: int(host.show("hangs", "NRestarts")) > 0)
    log = host.log("hangs")
    assert "Watchdog timeout" in log
    assert re.search(r'File ".*sick.py", line \d+ in update_provider_tree', log)


def test_reload_asks_for_a_period_and_does_not_restart(host: Host) -> None:
    host.until_active("patient")
    pid = host.show("patient", "MainPID")
    host.container.run("systemctl", "reload", "patient")
    host.until_status("patient", "1 node reported to Placement")
    assert host.show("patient", "MainPID") == pid


def test_a_hang_up_is_a_reload_to_systemd(host: Host) -> None:
    host.until_active("steady")
    changed, pid = "StateChangeTimestampMonotonic", host.show("steady", "MainPID")
    before = host.show("steady", changed)
    host.container.run("kill", "-HUP", pid)
    host.until("steady", lambda: host.show("steady", changed) != before)
    host.until_active("steady")
    assert (host.show("steady", "MainPID"), host.show("steady", "Result")) == (pid, "success")


def test_stop_is_quick_and_clean(host: Host) -> None:
    host.until_active("steady")
    host.container.run("systemctl", "stop", "steady")
    assert host.show("steady", "ActiveState") == "inactive"
    assert (host.show("steady", "Result"), host.show("steady", "ExecMainStatus")) == (
        "success",
        "0",
    )


def test_libvirt_is_reached_through_all_the_hardening(host: Host) -> None:
    if shutil.which("libvirtd", path="/usr/sbin:/usr/bin") is None:
        pytest.skip("libvirtd is not installed")
    host.container.run("systemctl", "start", "libvirtd")
    host.add("real", EAGER + "[libvirt]\nvirt_type = qemu\n", driver="libvirt")
    host.container.run("systemctl", "daemon-reload")
    host.container.run("systemctl", "start", "real")
    host.until_status("real", "1 node reported to Placement")
    uuid = host.container.run("cat", "/var/lib/real/compute_id")
    assert "MEMORY_MB" in host.placement.stranger.inventory(uuid)
    host.container.run("systemctl", "stop", "real")


def test_nobody_waits_longer_for_a_silent_placement(host: Host) -> None:
    host.until_active("silent")
    times = ("InactiveExitTimestampMonotonic", "ActiveEnterTimestampMonotonic")
    began, ready = (int(host.show("silent", key)) / 1e6 for key in times)
    assert opts.READY_WITHIN <= ready - began  # and not for ever, which is how long it is silent
    # Later, when the client has given up, it says that Placement does not answer.
    said = ("the first report is not finished yet", "degraded: no answer to GET")
    host.until("silent", lambda: host.show("silent", "StatusText").startswith(said))


def test_a_stop_does_not_wait_for_a_silent_placement(host: Host) -> None:
    host.until_active("silent")
    host.container.run("systemctl", "stop", "silent")
    assert host.show("silent", "Result") != "timeout", "it ended by itself"
    assert "exiting now" in host.log("silent")
