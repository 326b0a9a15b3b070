"""A real Keystone before Placement and before os-services: who is let in, as what, and how long.

The agent has the role ``service`` and nothing else, as docs/configure.rst advises.
"""

import base64
import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from agent import config
from agent.placement import adapter_from_conf
from agent.registry.checks import HeartbeatMessage
from compute_registry.store import SqlRegistry
from reportclient.errors import AuthenticationFailed, Forbidden, Unreachable
from reportclient.http import PlacementAPI
from tests import registries
from tests.integration.switched import status_of
from tests.servers.agent import AgentProcess
from tests.servers.databases import free_port
from tests.servers.keystone import PASSWORD, PROJECT, REGION, Keystone, authtoken
from tests.servers.placement import RealPlacement
from tests.servers.process import completed
from tests.servers.registry import RegistryProcess, fetch

pytestmark = pytest.mark.needs("keystone")

BY_PASSWORD = f"""
auth_type = password
username = {{user}}
password = {{password}}
project_name = {PROJECT}
user_domain_id = default
project_domain_id = default
"""


class PlacementWithKeystone(RealPlacement):
    """Believes only tokens; its policy is Placement's own."""

    def __init__(self, directory: Path, authtoken: str) -> None:
        super().__init__(directory, reshaper_for_admin=False)
        self._authtoken = authtoken

    def _write_configuration(self) -> None:
        super()._write_configuration()
        path = self.directory / "placement.conf"
        text = path.read_text().replace("auth_strategy = noauth2", "auth_strategy = keystone")
        path.write_text(text + self._authtoken)


@dataclass
class Cloud:
    keystone: Keystone
    placement: PlacementWithKeystone
    registry: RegistryProcess
    records: SqlRegistry
    port: int
    """Of the registry's REST face."""

    def api(self, directory: Path, login: str) -> PlacementAPI:
        """Placement for one who logs in so, by the catalogue."""
        path = directory / "some.conf"
        path.write_text(f"[DEFAULT]\ncompute_driver = fake\n{self.login(login)}")
        return PlacementAPI(adapter_from_conf(config.load_config(["--config-file", str(path)])))

    def login(self, how: str) -> str:
        return f"[placement]\nregion_name = {REGION}\nauth_url = {self.keystone.url}\n{how}"

    def openstack(self, user: str, password: str, *words: str, project: str = PROJECT):
        return completed(
            *(sys.executable, "-W", "ignore", "-m", "openstackclient.shell"),
            *("--os-compute-api-version", "2.53", "compute", "service", *words),
            env=self.keystone.environment(user, password, project),
        )


@pytest.fixture(scope="session")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    directory = tmp_path_factory.mktemp("cloud")
    with Keystone(directory / "keystone") as keystone:
        keystone.add_project()
        port = free_port()
        for name in ("placement", "compute-registry", "agent"):
            keystone.add_user(name, "service")
        for name in ("member",):
            keystone.add_user(name, name)
        more = f"rest_port = {port}\n{authtoken(keystone, 'compute-registry', 'yrtsiger-etupmoc')}"
        placement = PlacementWithKeystone(
            directory / "placement", authtoken(keystone, "placement", "tnemecalp")
        )
        with placement, RegistryProcess(directory / "registry", more=more) as registry:
            keystone.add_endpoint("placement", placement.url)
            keystone.add_endpoint("compute", f"http://127.0.0.1:{port}/v2.1")
            with registries.registry(directory / "registry") as store:
                yield Cloud(keystone, placement, registry, store, port)


@pytest.fixture
def agent(cloud: Cloud, tmp_path: Path) -> Iterator[AgentProcess]:
    cloud.placement.empty()
    process = AgentProcess(tmp_path, cloud.placement.url)
    process.write()
    yield process
    process.kill()


def logs_in(agent: AgentProcess, cloud: Cloud, how: str) -> None:
    before, _, _ = agent.config.read_text().partition("[placement]")
    agent.config.write_text(before + cloud.login(how))


AGENT = BY_PASSWORD.format(user="agent", password="tnega")


def test_a_placement_added_to_the_catalogue_is_found_without_a_restart(cloud, tmp_path) -> None:
    api = cloud.api(tmp_path, f"service_type = placement-to-be\n{AGENT}")
    for _ in range(2):
        with pytest.raises(Unreachable, match="endpoint_override"):
            api.request("GET", "/resource_providers?name=x")
    cloud.keystone.add_endpoint("placement-to-be", cloud.placement.url)
    assert api.request("GET", "/resource_providers?name=x") == {"resource_providers": []}


def test_an_endpoint_in_another_region_is_named_with_the_option_to_set(cloud, agent) -> None:
    kind, url = "placement-twice", cloud.placement.url
    cloud.keystone.add_endpoint(kind, url, f"{url}/elsewhere")
    logs_in(agent, cloud, f"service_type = {kind}\n{AGENT}")
    text = agent.config.read_text()
    agent.config.write_text(text.replace(f"region_name = {REGION}\n", ""))
    log = agent.once().stderr
    both = [f"{url} (internal, {REGION})", f"{url}/elsewhere (internal, {REGION}1)"]
    used = status_of(agent)["service"]["placement"]  # in any order: elsewhere nothing answers
    both.remove(used)
    assert f"Reporting to Placement at {used}\n" in log
    assert f"{used} is used, but the catalogue has {both[0]}, too; to choose, set" in log
    agent.config.write_text(text)
    log = agent.once().stderr
    assert f"Reporting to Placement at {url} (internal, {REGION})\n" in log and "is used" not in log


def test_the_service_role_may_reshape(cloud: Cloud, tmp_path: Path) -> None:
    api = cloud.api(tmp_path, AGENT)
    made = api.request("POST", "/resource_providers", json={"name": "reshaped"})
    inventory = {
        "resource_provider_generation": made["generation"],
        "inventories": {"VCPU": {"total": 4}},
    }
    body = {"inventories": {made["uuid"]: inventory}, "allocations": {}}
    api.request("POST", "/reshaper", json=body)
    found = api.request("GET", f"/resource_providers/{made['uuid']}/inventories")
    assert found["inventories"]["VCPU"]["total"] == 4


def test_a_member_is_refused_by_placement_and_the_agent_says_so(cloud, agent, tmp_path) -> None:
    how = BY_PASSWORD.format(user="member", password="rebmem")
    with pytest.raises(Forbidden, match="placement:resource_providers"):
        cloud.api(tmp_path, how).request("GET", "/resource_providers")
    logs_in(agent, cloud, how)
    done = agent.once()
    assert done.returncode == 1
    assert "placement:resource_providers" in done.stderr
    assert "Traceback" not in done.stderr


def test_a_wrong_password_is_an_error_of_the_credentials(cloud: Cloud, tmp_path: Path) -> None:
    api = cloud.api(tmp_path, BY_PASSWORD.format(user="agent", password="wrong"))
    with pytest.raises(AuthenticationFailed, match="credentials"):
        api.request("GET", "/resource_providers")


def test_a_browser_sees_the_fleet_while_its_credential_exists(cloud: Cloud) -> None:
    keystone = cloud.keystone
    admin = keystone.add_user("looks", "admin")
    id_, secret = keystone.application_credential("looks", admin, "admin")
    with_it = {"Authorization": basic(f"{id_}:{secret}")}
    page = f"http://127.0.0.1:{cloud.port}/fleet"
    status, headers, _ = fetch(page)
    assert (status, headers["www-authenticate"].partition(" ")[0]) == (401, "Basic")
    assert fetch(page, **with_it)[0] == fetch(page, **with_it)[0] == 200
    assert fetch(page, Authorization=basic(f"{id_}:wrong"))[0] == 401
    assert fetch(f"http://127.0.0.1:{cloud.port}/v2.1/os-services", **with_it)[0] == 401
    user = keystone.session("looks", admin).get_user_id()
    keystone.admin.delete(f"{keystone.url}/users/{user}/application_credentials/{id_}")
    status, headers, body = fetch(page, **with_it)
    assert (status, headers["www-authenticate"].partition(" ")[0]) == (401, "Basic"), body
    assert secret not in cloud.registry.log


def basic(text: str) -> str:
    return f"Basic {base64.b64encode(text.encode()).decode()}"


DISABLE = ("set", "--disable", "--disable-reason", "new disks")


def test_the_openstack_client_of_an_admin_finds_us_in_the_catalogue(cloud: Cloud) -> None:
    cloud.records.heartbeat(HeartbeatMessage("host1", "a", None, []))
    admin = ("admin", PASSWORD)
    done = cloud.openstack(*admin, *DISABLE, "host1", "nova-compute", project="admin")
    assert done.returncode == 0, done.stderr
    done = cloud.openstack(*admin, "list", "--long", "-f", "json", project="admin")
    found = {each["Host"]: each for each in json.loads(done.stdout)}
    assert (found["host1"]["Status"], found["host1"]["Disabled Reason"]) == (
        "disabled",
        "new disks",
    )


def test_a_member_is_refused_in_the_words_of_the_policy(cloud: Cloud) -> None:
    cloud.records.heartbeat(HeartbeatMessage("host2", "a", None, []))
    done = cloud.openstack("member", "rebmem", *DISABLE, "host2", "nova-compute")
    assert done.returncode == 1
    assert "403" in done.stderr and "os_compute_api:os-services:list" in done.stderr
    assert not cloud.records.get_service("host2").disabled


CHECKED = {
    AGENT: (0, "Placement: {} (", ""),
    BY_PASSWORD.format(user="agent", password="wrong"): (2, "", "Keystone refused the credentials"),
    BY_PASSWORD.format(user="member", password="rebmem"): (2, "", "placement:resource_providers"),
    AGENT.replace("username = agent", ""): (2, "", "Keystone refused the credentials"),
    AGENT.replace("user_domain_id = default", ""): (2, "", "Keystone refused the credentials"),
    f"{AGENT}service_type = nothing\n": (2, "", "?name=testhost not sent: "),
}


@pytest.mark.parametrize("how", CHECKED)
def test_a_check_logs_in_and_names_the_endpoint(
    cloud: Cloud, agent: AgentProcess, how: str
) -> None:
    logs_in(agent, cloud, how)
    code, shown, error = CHECKED[how]
    done = agent.once("--check")
    assert done.returncode == code, done.stderr
    assert shown.format(cloud.placement.url) in done.stdout
    assert error in done.stderr
    if code:
        assert "no answer to" not in done.stderr and "agent.conf" in done.stderr
