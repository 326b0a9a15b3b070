"""The roles of deploy/ansible, by ansible-core, on two Debian containers with a real systemd."""

import json
import os
import re
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import rabbitmq
from tests.servers.databases import MariaDB
from tests.servers.nspawn import REPOSITORY, Container, missing
from tests.servers.placement import RealPlacement
from tests.servers.process import completed
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import eventually

pytestmark = [
    pytest.mark.real_systemd,
    pytest.mark.faults,
    pytest.mark.needs("rabbitmq", "mariadb"),
]

ROLES = REPOSITORY / "deploy" / "ansible"
TOOLS = REPOSITORY / "build" / "ansible"
"""A virtual environment with ansible-core, kept between runs."""
PACKAGES = REPOSITORY / "build" / "deb" / "for-ansible"
NOVA = """\
[Service]
ExecStart=/bin/sleep infinity
[Install]
WantedBy=multi-user.target
"""


class Site:
    """Two hosts: both are hypervisors, the first has the registry, too."""

    def __init__(
        self, directory: Path, hosts: dict[str, Container], conf: dict[str, Any], broker: RabbitMQ
    ) -> None:
        self.directory, self.hosts, self.broker = directory, hosts, broker
        self.conf: dict[str, Any] = conf

    def play(self, book: str, *words: str, fails: bool = False) -> dict[str, dict[str, int]]:
        """Run a playbook; return how many tasks of each host changed, failed and so on."""
        self._write_inventory()
        own = self.broker.environment()  # for its rabbitmqctl, on this machine
        path = f"{next(rabbitmq.SERVERS.glob('rabbitmq_server-*/sbin'))}:{own['PATH']}"
        environment = os.environ | own
        environment |= {
            "PATH": path,
            "ANSIBLE_CONNECTION_PLUGINS": str(REPOSITORY / "tests" / "servers" / "ansible"),
            "ANSIBLE_LOCAL_TEMP": str(self.directory / "tmp"),
            "ANSIBLE_REMOTE_TEMP": "/root/.ansible/tmp",
            "ANSIBLE_PIPELINING": "true",
            "ANSIBLE_NOCOLOR": "true",
        }
        done = completed(
            *(TOOLS / "bin" / "ansible-playbook", "-i", "inventory.json", ROLES / book, *words),
            cwd=self.directory,
            env=environment,
            timeout=550,
        )
        self.output = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, self.output[-6000:]
        recap = done.stdout.rpartition("PLAY RECAP")[2]
        return {
            line.split()[0]: {key: int(n) for key, n in re.findall(r"(\w+)=(\d+)", line)}
            for line in recap.splitlines()[1:]
            if "=" in line
        }

    def _write_inventory(self) -> None:
        variables = {
            name: {
                "ansible_connection": "ansible_nsenter",
                "ansible_nsenter_pid": container.pid,
                "ansible_python_interpreter": "/usr/bin/python3",
                "ansible_become": False,  # it is root already, and has no sudo
                "compute_agent_conf": {
                    **self.conf["agent"],
                    "DEFAULT": {**self.conf["agent"]["DEFAULT"], "host": name},
                },
            }
            for name, container in self.hosts.items()
        }
        shared = {
            "compute_packages": str(PACKAGES),
            "compute_secrets": str(self.directory / "secrets"),
            "compute_registry_conf": self.conf["registry"],
            "compute_broker_nodes": [f"127.0.0.1:{self.broker.port}"],
        }
        here = {
            "ansible_connection": "local",
            "ansible_python_interpreter": sys.executable,
            "ansible_become": False,
        }
        inventory = {
            "all": {"vars": shared, "hosts": variables},
            "compute_broker": {"hosts": {"broker": here}},
            "compute_agent": {"hosts": dict.fromkeys(variables, {})},
            "compute_registry": {"hosts": {next(iter(variables)): {}}},
        }
        (self.directory / "inventory.json").write_text(json.dumps(inventory))

    def show(self, host: str, key: str, unit: str = "compute-agent") -> str:
        return self.hosts[host].run("systemctl", "show", unit, "--value", "-p", key)

    def log(self, host: str, unit: str = "compute-agent") -> str:
        return self.hosts[host].run("journalctl", "-u", unit, "-o", "cat", "--no-pager")


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> None:
    """ansible-core, and the packages of this source."""
    reason = missing(tmp_path_factory.mktemp("try"))
    if reason is not None:
        pytest.skip(reason)
    if not (TOOLS / "bin" / "ansible-playbook").exists():
        venv.create(TOOLS, with_pip=True, symlinks=True)
        install = [TOOLS / "bin" / "pip", "install", "-q", "ansible-core>=2.19,<2.20"]
        done = completed(*install)
        if done.returncode:
            pytest.skip(f"ansible-core can't be installed: {done.stderr[-500:]}")
    command = [REPOSITORY / "tools" / "deb.sh", "--output", PACKAGES]
    done = completed(*command, env=os.environ | {"COMPUTE_AGENT_DEB_LEVEL": "1"})
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def site(
    tools: None, placement_server: RealPlacement, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    placement_server.start()
    placement_server.empty()
    directory = tmp_path_factory.mktemp("ansible")
    with RabbitMQ() as broker, MariaDB() as database:
        with Container(directory / "one") as one, Container(directory / "two") as two:
            conf = {
                "agent": {
                    "DEFAULT": {
                        "compute_driver": "fake",
                        "update_resources_interval": 1,
                        "periodic_fuzzy_delay": 0,
                    },
                    "placement": {
                        "auth_type": "admin_token",
                        "token": "admin",
                        "endpoint": placement_server.url,
                    },
                    "registry": {"access": "rpc"},
                },
                "registry": {"registry": {"connection": database.create("registry")}},
            }
            site = Site(directory, {"host1": one, "host2": two}, conf, broker)
            for container in (one, two):
                container.run("rm", "-f", "/usr/sbin/policy-rc.d")
                container.write("/etc/systemd/system/nova-compute.service", NOVA)
            yield site


def unchanged(recap: dict[str, dict[str, int]]) -> bool:
    return len(recap) == 2 and all(host["changed"] == 0 for host in recap.values())


@pytest.mark.timeout(3600)
def test_a_site_is_installed_changed_and_handed_back(site: Site, placement_server) -> None:
    """In one test, since each step begins where the one before ended."""
    site.play("site.yml")
    roots = {
        one["name"]: one["uuid"]
        for one in placement_server.providers()
        if one["name"] in site.hosts
    }
    assert roots.keys() == site.hosts.keys()
    key = "/etc/compute-agent/compute-agent.conf.d/host-key.conf"
    assert "host_key" in site.hosts["host2"].run("cat", key)

    for host in site.hosts:
        eventually(
            lambda host=host: f"agent-{host}" in site.broker.control("list_connections", "user"),
            within=90,
            otherwise=lambda host=host: site.log(host)[-3000:],
        )
    permissions = site.broker.control("list_user_topic_permissions", "agent-host2")
    assert r"compute\.host2" in permissions.replace("\\\\", "\\"), permissions

    assert unchanged(site.play("site.yml")), site.output

    site.broker.control("clear_topic_permissions", "agent-host2")
    assert site.play("site.yml", "--check")["host2"]["changed"] == 1, site.output
    assert r"compute" not in site.broker.control("list_user_topic_permissions", "agent-host2")

    before = {host: site.show(host, "MainPID") for host in site.hosts}
    site.conf["agent"]["DEFAULT"]["update_resources_interval"] = 2
    recap = site.play("site.yml", "--check")
    assert not unchanged(recap)
    assert "= 1" in site.hosts["host1"].run(
        "grep", "^update_resources_interval", "/etc/compute-agent/compute-agent.conf"
    )
    site.play("site.yml")
    assert {host: site.show(host, "MainPID") for host in site.hosts} == before, "reloaded"
    eventually(
        lambda: "Option DEFAULT.update_resources_interval changed" in site.log("host2"),
        within=90,
        otherwise=lambda: site.log("host2")[-3000:],
    )

    site.conf["agent"]["DEFAULT"]["periodic_fuzzy_delay"] = 1
    site.play("site.yml")
    after = {host: site.show(host, "MainPID") for host in site.hosts}
    assert all(after[host] != before[host] for host in site.hosts), "restarted"
    assert unchanged(site.play("site.yml")), site.output

    site.play("hand_back.yml", "--limit", "host1")
    assert "CUSTOM_OWNER_COMPUTE_AGENT" not in placement_server.stranger.traits(roots["host1"])
    assert "CUSTOM_OWNER_COMPUTE_AGENT" in placement_server.stranger.traits(roots["host2"])
    assert site.show("host1", "ActiveState") == "inactive"
    assert site.show("host1", "ActiveState", "nova-compute") == "active"
    assert site.show("host2", "ActiveState") == "active"
