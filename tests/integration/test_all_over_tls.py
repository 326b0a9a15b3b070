"""A whole cloud over TLS with a private authority, and Keystone; and no secret in what it wrote.

Placement, Keystone, RabbitMQ, the registry's database, compute-registry and an agent that has an
application credential with the role ``service`` and nothing else.
"""

import base64
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent.bus.signing import host_key
from agent.ownership.policy import DISABLED
from tests.integration.switched import root_of, status_of
from tests.integration.test_keystone import PlacementWithKeystone
from tests.servers.agent import AgentProcess
from tests.servers.databases import MariaDB
from tests.servers.keystone import PASSWORD, REGION, Keystone, authtoken
from tests.servers.ports import free_port
from tests.servers.registry import RegistryProcess, fetch
from tests.servers.tls import Authority, SecureMariaDB, SecureRabbitMQ, TlsProxy

pytestmark = pytest.mark.needs("keystone", "rabbitmq", "mariadb")

SECRETS = {
    "broker": "s3cret-of-the-broker",
    "database": "s3cret-of-the-database",
    "master_key": "s3cret-of-the-master-key",
    "host_key": host_key("s3cret-of-the-master-key", "testhost"),
    "registry": "yrtsiger",
    "administrator": PASSWORD,
}
WRITTEN = (
    *("Guru Meditation", "host_key = ***", "testhost is disabled now", "database: ok"),
    *("compute_agent_heartbeats_total", "compute_registry_rpc_calls_total", '"checks"'),
)
"""By which one sees that logs, report, status, health and metrics were looked at."""
PAGES = ("metrics", "readyz")
TRACEBACK = "Traceback (most recent call last)"
LONG = 300.0
"""Seconds: six servers and an agent are at work, and somebody else may be."""
TOKEN = re.compile(r"gAAAA[\w-]{20,}")
"""How Fernet tokens begin."""


@dataclass
class Cloud:
    directory: Path
    keystone: Keystone
    placement: PlacementWithKeystone
    registry: RegistryProcess
    agent: AgentProcess
    credential: tuple[str, str]
    rest: str
    metrics: tuple[int, int]
    database: MariaDB

    def traits(self) -> list[str]:
        path = f"{self.placement.url}/resource_providers/{root_of(self.agent)}/traits"
        answer = self.keystone.admin.get(path, headers={"OpenStack-API-Version": "placement 1.39"})
        found: list[str] = answer.json()["traits"]
        return found

    def written(self) -> dict[str, str]:
        """All that anybody may read afterwards, by where it is."""
        files = [one for one in self.agent.directory.rglob("*") if one.is_file()]
        files += [self.registry.directory / "log"]
        files = [one for one in files if one not in (self.agent.config, self.registry.config)]
        found = {str(one): one.read_bytes().decode("utf-8", "replace") for one in files}
        for pid in (self.agent.process.pid, self.registry.pid):
            for name in ("cmdline", "environ"):
                path = Path(f"/proc/{pid}/{name}")
                found[str(path)] = path.read_text(errors="replace")
        return found | self.pages()

    def pages(self) -> dict[str, str]:
        urls = [f"http://127.0.0.1:{port}/{page}" for port in self.metrics for page in PAGES]
        return {url: fetch(url)[2].decode() for url in urls}


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    directory = tmp_path_factory.mktemp("tls")
    authority = Authority(directory / "authority")
    keystone = Keystone(directory / "keystone")
    outside = TlsProxy(authority, keystone.port)
    keystone.public = outside.url
    broker = SecureRabbitMQ(authority, "everybody", SECRETS["broker"])
    with outside, keystone, broker, SecureMariaDB(authority) as mariadb:
        keystone.add_project()
        for name in ("placement", "registry", "agent"):
            keystone.add_user(name, "service")
        move_identity(keystone)
        placement = PlacementWithKeystone(
            directory / "placement", authtoken(keystone, "placement", "tnemecalp", authority.ca)
        )
        connection = mariadb.secured("registry", "registry", SECRETS["database"])
        bus = f"[oslo_messaging_rabbit]\nssl = true\nssl_ca_file = {authority.ca}\n"
        ports = free_port(), free_port(), free_port()
        registry = RegistryProcess(
            directory / "registry",
            transport_url=broker.secure_url,
            more=f"connection = {connection}\nmaster_key = {SECRETS['master_key']}\n"
            f"rest_port = {ports[0]}\n[monitoring]\nlisten_port = {ports[1]}\n[DEFAULT]\ndebug = true\n{bus}"
            + authtoken(keystone, "registry", SECRETS["registry"], authority.ca),
        )
        with placement, TlsProxy(authority, placement.port) as secure, registry:
            keystone.add_endpoint("placement", secure.url)
            credential = keystone.application_credential("agent", "tnega", "service")
            agent = AgentProcess(directory / "agent", secure.url)
            agent.options = (
                "update_resources_interval = 3\nperiodic_fuzzy_delay = 0\n"
                f"debug = true\ntransport_url = {broker.secure_url}\n"
                "[compute]\nresource_provider_association_refresh = 1\n"
                "[registry]\naccess = rpc\nreport_interval = 1\n"
                f"host_key = {SECRETS['host_key']}\n[monitoring]\nlisten_port = {ports[2]}\n{bus}"
            )
            agent.make_sick()
            agent.write()
            ours, _, _ = agent.config.read_text().partition("[placement]")
            agent.config.write_text(
                f"{ours}[placement]\nauth_type = v3applicationcredential\ntimeout = 120\n"
                f"auth_url = {keystone.public}/v3\nregion_name = {REGION}\n"
                f"cafile = {authority.ca}\napplication_credential_id = {credential[0]}\n"
                f"application_credential_secret = {credential[1]}\n"
            )
            rest = f"http://127.0.0.1:{ports[0]}"
            with agent:
                yield Cloud(
                    *(directory, keystone, placement, registry, agent, credential, rest),
                    (ports[1], ports[2]),
                    mariadb,
                )


def move_identity(keystone: Keystone) -> None:
    """In the catalogue: to where it is with TLS."""
    here = f"{keystone.url}/endpoints"
    for each in keystone.admin.get(here).json()["endpoints"]:
        moved = {"endpoint": {"url": f"{keystone.public}/v3"}}
        keystone.admin.patch(f"{here}/{each['id']}", json=moved)


def test_a_host_is_reported_and_switched_and_no_secret_is_written(cloud: Cloud) -> None:
    agent, keystone = cloud.agent, cloud.keystone
    agent.until_reported(LONG)
    agent.until(lambda: all(one["text"] == "" for one in status_of(agent)["checks"]), LONG)
    assert DISABLED not in cloud.traits()

    headers = {"X_Auth_Token": keystone.admin.get_token(), "X_OpenStack_Nova_API_Version": "2.1"}
    body = b'{"host": "testhost", "binary": "nova-compute", "disabled_reason": "new disks"}'
    path = f"{cloud.rest}/v2.1/os-services/disable-log-reason"
    done = fetch(path, "PUT", body, **headers)
    assert done[0] == 200, (done, cloud.registry.log)
    agent.until(lambda: DISABLED in cloud.traits(), LONG)
    coded = base64.b64encode(":".join(cloud.credential).encode()).decode()
    assert fetch(f"{cloud.rest}/fleet", Authorization=f"Basic {coded}")[0] == 403

    renewed_after_its_end(cloud)
    agent.send(signal.SIGUSR2)
    agent.until_logged("host_key = ***", seconds=LONG)
    said = computectl(agent.config, "status")
    refused = {
        "refused by Keystone": computectl_with_a_wrong(cloud, cloud.credential[1], "tree"),
        "refused by the broker": computectl_with_a_wrong(
            cloud, SECRETS["broker"], "service", "list"
        ),
    }
    pages = {f"{url} before": text for url, text in cloud.pages().items()}
    everything_raises(cloud, headers)

    written = cloud.written() | {"status": said.stdout} | refused | pages
    secrets = [*SECRETS.values(), cloud.credential[1], "wr0ng-secret", coded]
    found = [
        (secret, where) for where, text in written.items() for secret in secrets if secret in text
    ]
    found += [("a token", where) for where, text in written.items() if TOKEN.search(text)]
    assert not found
    all_of_it = "\n".join(written.values())
    for what in WRITTEN:
        assert what in all_of_it, f"nothing was looked at that has {what}"


def computectl_with_a_wrong(cloud: Cloud, secret: str, *words: str) -> str:
    other = cloud.agent.directory / "other.conf"
    text = cloud.agent.config.read_text()
    assert secret in text
    other.write_text(text.replace(secret, "wr0ng-secret"))
    refused = computectl(other, *words)
    other.unlink()
    assert refused.returncode != 0
    return refused.stdout


def everything_raises(cloud: Cloud, headers: dict[str, str]) -> None:
    """A driver, a request, a call over RPC: what nobody expects, with all its lines."""
    agent, registry = cloud.agent, cloud.registry
    (agent.directory / "deed.py").write_text("raise RuntimeError('no such cell')")
    agent.until(lambda: TRACEBACK in agent.log and "no such cell" in agent.log, LONG)
    # Bytes, where there was a text: no JSON can have them.
    cloud.database.sql("ALTER TABLE registry.services MODIFY uuid VARBINARY(36)")
    headers = headers | {"X_OpenStack_Nova_API_Version": "2.53"}
    listing = f"{cloud.rest}/v2.1/os-services"
    registry.wait_for(lambda: fetch(listing, **headers)[0] == 500, LONG)
    registry.wait_for(lambda: TRACEBACK in registry.log, LONG)
    registry.may_log_tracebacks = True


def computectl(config: Path, *words: str) -> subprocess.CompletedProcess[str]:
    start = "from computectl.app import main; main()"
    command = [sys.executable, "-c", start, "--config-file", str(config), "--debug", *words]
    return subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300
    )


def renewed_after_its_end(cloud: Cloud) -> None:
    """Whatever ends a token: here, that its user was disabled for a moment."""
    keystone = cloud.keystone
    user = keystone.session("agent", "tnega").get_user_id()
    mark = cloud.placement.mark()
    for enabled in (False, True):
        keystone.admin.patch(f"{keystone.url}/users/{user}", json={"user": {"enabled": enabled}})
    cloud.agent.until(lambda: 401 in statuses(cloud, mark), LONG)
    mark = cloud.placement.mark()
    cloud.agent.until(lambda: 200 in statuses(cloud, mark), LONG)
    cloud.agent.until(lambda: status_of(cloud.agent)["nodes"][0]["ok"], LONG)


def statuses(cloud: Cloud, mark: int) -> list[int]:
    return [each.status for each in cloud.placement.since(mark)]
