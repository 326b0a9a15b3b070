"""compute-registry as processes: a real RabbitMQ, a real database, the real openstack client."""

import functools
import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from agent import errors
from agent.bus.rpcapi import ComputeAgentAPI
from agent.bus.signing import host_key, signed
from agent.errors import Changed, RegistryUnavailable
from agent.registry import wire
from agent.registry.checks import HeartbeatMessage, StatusChange
from agent.registry.client import RegistryClient
from compute_registry import web
from compute_registry.store import SqlRegistry
from tests import registries
from tests.servers import records
from tests.servers.databases import MariaDB
from tests.servers.ports import free_port
from tests.servers.process import completed
from tests.servers.rabbitmq import RabbitMQ
from tests.servers.registry import START, RegistryProcess, fetch, recording_agent
from tests.servers.tiny_keystone import TinyKeystone
from tests.waiting import eventually, without_error


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDB]:
    with MariaDB() as server:
        yield server


def until(done, timeout: float = 60.0):  # type: ignore[no-untyped-def]
    """The first answer that is no error."""
    return without_error(done, RegistryUnavailable, within=timeout)


# -- over the bus


def test_two_instances_serve_a_fleet_and_one_may_die(broker, mariadb, tmp_path, transport) -> None:
    more = f"connection = {mariadb.create('fleet')}"
    instances = [
        RegistryProcess(tmp_path / name, transport_url=broker.url, more=more)
        for name in ("one", "two")
    ]
    client = RegistryClient(transport(broker.url), timeout=30)
    try:
        threads = [threading.Thread(target=each.start) for each in instances]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        for each in instances:
            each.wait_for(lambda each=each: "Serving RPC calls" in each.log)
        client.heartbeat(HeartbeatMessage("host1", "rack 1", "6.5", []))
        instances[0].kill9()
        for number in range(20):
            until(
                lambda n=number: client.set_status(
                    StatusChange("host1", disabled=True, reason=f"{n}")
                )
            )
        assert client.get_service("host1").disabled_reason == "19"
        assert instances[1].stop() == 0
    finally:
        for each in instances:
            each.stop()


def test_calls_end_and_come_back_when_the_registry_or_the_broker_is_killed(
    own_broker: RabbitMQ, transport: Callable[[str], Any], tmp_path: Path
) -> None:
    client = RegistryClient(transport(own_broker.url), timeout=2)
    with RegistryProcess(tmp_path, transport_url=own_broker.url) as registry:
        until(lambda: client.heartbeat(HeartbeatMessage("host1", "a", "6.5", [])))
        registry.kill9()
        assert_it_fails(client)
        assert client.heartbeat(HeartbeatMessage("host1", "a", "6.5", [], known_version=1)) is None
        queued = ("list_queues", "--no-table-headers", "name", "messages")
        # The broker drops what nobody fetches in time.
        eventually(lambda: f"{wire.TOPIC}\t0" in own_broker.control(*queued))
        registry.start()
        assert until(lambda: client.get_service("host1")).host == "host1"
        own_broker.kill9()
        assert_it_fails(client)
        own_broker.start()
        assert until(lambda: client.get_service("host1"), 60).host == "host1"


def test_an_operator_gets_through_while_a_host_changes_its_record(
    broker: RabbitMQ, transport: Callable[[str], Any], tmp_path: Path
) -> None:
    keys, stop = (
        functools.partial(signed, [host_key("master", "host1")], "host1"),
        threading.Event(),
    )
    client = RegistryClient(transport(broker.url), 60, sign=keys)

    def change() -> int:
        for number in itertools.count():
            if stop.is_set():
                return number
            seen = client.get_service("host1")
            version = {"expected_version": seen.version, "new_version": seen.version + 1}
            with suppress(Changed):
                client.set_status(StatusChange("host1", disabled=not seen.disabled, **version))
        raise AssertionError

    def computectl(*words: str) -> str:
        start = "from computectl.app import main; main()"
        command = [sys.executable, "-c", start, "--config-file", str(registry.config), "service"]
        said = subprocess.run([*command, *words, "host1"], stdout=subprocess.PIPE, text=True)
        return said.stdout.partition("\n")[0]

    more = "access = rpc\nmaster_key = master"
    with RegistryProcess(tmp_path, transport_url=broker.url, more=more) as registry:
        until(lambda: client.heartbeat(HeartbeatMessage("host1", "a", None, [])))
        with ThreadPoolExecutor() as pool:
            changes = pool.submit(change)
            try:
                for _ in range(3):
                    assert computectl("force-down") == "host1 is forced down"
                    assert computectl("disable") == "host1 is disabled in its service record"
                    assert computectl("force-down", "--unset") == "host1 is no longer forced down"
            finally:
                stop.set()
        assert changes.result() > 20


def assert_it_fails(client: RegistryClient) -> None:
    with pytest.raises(RegistryUnavailable):
        client.get_service("host1")


@pytest.mark.faults
def test_a_call_that_could_not_be_sent_is_not_sent_late(own_broker, transport) -> None:
    agent, server = recording_agent(transport(own_broker.url), "host1")
    used = ComputeAgentAPI(transport(own_broker.url), timeout=30)
    assert used.set_host_enabled("host1", enabled=True) == "enabled"
    own_broker.kill9()
    for caller in (used, ComputeAgentAPI(transport(own_broker.url), timeout=30)):
        with pytest.raises(errors.TransportUnavailable):
            caller.set_host_enabled("host1", enabled=False)
    own_broker.start()
    enable = functools.partial(used.set_host_enabled, "host1", enabled=True)
    assert without_error(enable, errors.MessagingError) == "enabled"
    time.sleep(2.0)  # for what would come late
    assert False not in agent.asked
    server.stop()


def test_it_starts_and_stops_without_its_broker_or_its_database(tmp_path: Path) -> None:
    nobody = f"rabbit://guest:guest@127.0.0.1:{free_port()}/"
    no_broker = RegistryProcess(tmp_path / "broker", transport_url=nobody)
    away = f"connection = mysql+pymysql://me:secret@127.0.0.1:{free_port()}/x"
    no_database = RegistryProcess(tmp_path / "database", transport_url=nobody, more=away)
    try:
        no_broker.start()
        no_database.start(says="Waiting for the database")
        assert "secret" not in no_database.log
        assert (no_broker.stop(), no_database.stop()) == (0, 0)
    finally:
        no_broker.stop()
        no_database.stop()


def test_each_new_reason_to_wait_for_the_database_is_logged_once(tmp_path: Path) -> None:
    file = tmp_path / "missing" / "registry.sqlite"
    more = f"connection = sqlite:///{file}\nrest_port = {free_port()}\nauth_strategy = noauth"
    registry = RegistryProcess(tmp_path, more=more)
    registry.start(says="Waiting for the database: ")
    try:
        file.parent.mkdir()
        file.write_bytes(b"no database at all" * 300)
        registry.wait_for(lambda: "file is not a database" in registry.log)
        file.unlink()
        registry.wait_for(lambda: "Serving the service records" in registry.log)
        assert registry.log.count("Waiting for the database: ") == 2
    finally:
        assert registry.stop() == 0


def test_sighup_takes_over_what_may_change_and_names_what_needs_a_restart(tmp_path: Path) -> None:
    number = free_port()
    port = f"rest_port = {number}\nauth_strategy = noauth\n"
    registry = RegistryProcess(tmp_path, more=port)
    registry.start()
    try:
        with registries.registry(tmp_path) as store:
            store.heartbeat(HeartbeatMessage("host1", "rack 1", "6.1", ()))
            records.later(store.database, 1000)
        for text in ("service_down_time = soon\n", "service_down_time = 9000\nrest_bind = ::1\n"):
            registry.config.write_text(
                f"[DEFAULT]\nstate_path = {tmp_path}\ndebug = true\n[registry]\n{port}{text}"
            )
            os.kill(registry.pid, signal.SIGHUP)
            said = (
                "was not reloaded, the previous one stays in use: "
                if "soon" in text
                else "Option DEFAULT.debug changed"
            )
            registry.wait_for(lambda said=said: said in registry.log)
            assert ("DEFAULT.debug changed" in registry.log) == ("soon" not in text)
        said = "Ignoring change to immutable option registry.rest_bind"
        registry.wait_for(lambda: said in registry.log)
        url = f"http://127.0.0.1:{number}/v2.1/os-services"
        registry.wait_for(lambda: b'"state":"up"' in fetch(url)[2].replace(b" ", b""))
        os.kill(registry.pid, signal.SIGUSR2)
        for words in ("Guru Meditation", "master_key = ***"):
            registry.wait_for(lambda words=words: words in registry.log)
    finally:
        assert registry.stop() == 0


def run_to_its_end(registry: RegistryProcess) -> subprocess.CompletedProcess[str]:
    return completed(sys.executable, "-c", START, "--config-file", registry.config)


def test_without_keys_it_serves_the_bus_only_where_that_is_wanted(tmp_path: Path) -> None:
    registry = RegistryProcess(tmp_path, transport_url=f"rabbit://u:p@127.0.0.1:{free_port()}/")
    with registry:
        registry.wait_for(lambda: "Calls over the message bus are not signed" in registry.log)
    registry.config.write_text(registry.config.read_text().replace("unsigned_calls = true", ""))
    done = run_to_its_end(registry)
    assert done.returncode == 2
    assert "[registry] master_key is not set" in done.stderr and "openssl rand" in done.stderr


# -- REST


@pytest.fixture
def rest(tmp_path: Path) -> Iterator[tuple[str, SqlRegistry]]:
    """The URL of a served registry without a bus, and its database."""
    port = free_port()
    more = f"rest_port = {port}\nauth_strategy = noauth"
    with RegistryProcess(tmp_path, more=more):
        with registries.registry(tmp_path) as store:
            yield f"http://127.0.0.1:{port}/v2.1", store


class OpenStack:
    """python-openstackclient, as people use it, with the version in its environment."""

    def __init__(self, url: str, microversion: str | None) -> None:
        self._environ = dict(os.environ)
        if microversion:
            self._environ["OS_COMPUTE_API_VERSION"] = microversion
        self._command = [sys.executable, "-W", "ignore", "-m", "openstackclient.shell"]
        self._command += ["--os-auth-type", "none", "--os-endpoint", url]

    def __call__(self, *args: str) -> str:
        done = completed(*self._command, "compute", "service", *args, env=self._environ)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def listed(self, *args: str) -> dict[str, dict[str, str]]:
        found = json.loads(self("list", "--long", "-f", "json", *args))
        return {each["Host"]: each for each in found}


@pytest.mark.parametrize("microversion", ["2.90", pytest.param("2.53", marks=pytest.mark.faults)])
def test_the_openstack_client_lists_disables_enables_and_deletes(rest, microversion: str) -> None:
    url, registry = rest
    openstack = OpenStack(url, microversion)
    for name in ("host1", "host2"):
        registry.heartbeat(HeartbeatMessage(name, "a", "6.5", []))
    assert openstack.listed().keys() == {"host1", "host2"}
    openstack("set", "--disable", "--disable-reason", "new disks", "host1", "nova-compute")
    openstack("set", "--down", "host2", "nova-compute")
    registry.heartbeat(
        HeartbeatMessage("host1", "a", "6.5", [])
    )  # on a slow machine a minute has gone by
    found = openstack.listed()
    assert (found["host1"]["Status"], found["host1"]["State"]) == ("disabled", "up")
    assert found["host1"]["Disabled Reason"] == "new disks"
    assert (found["host2"]["Status"], found["host2"]["State"]) == ("enabled", "down")
    openstack("set", "--enable", "host1", "nova-compute")
    record = registry.get_service("host1")
    assert (record.disabled, record.disabled_reason) == (False, None)
    openstack("delete", found["host2"]["ID"])
    assert openstack.listed("--host", "host2") == {}


@pytest.mark.parametrize(
    "microversion",
    [None, *(pytest.param(each, marks=pytest.mark.faults) for each in ("2.1", "2.11", "2.52"))],
)
def test_the_openstack_client_gets_along_with_versions_before_uuids(
    rest: tuple[str, SqlRegistry], microversion: str | None
) -> None:
    url, registry = rest
    registry.heartbeat(
        HeartbeatMessage("host1", "a", "6.5", ["6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca"])
    )
    openstack = OpenStack(url, microversion)
    openstack("set", "--disable", "--disable-reason", "why", "host1", "nova-compute")
    assert registry.get_service("host1").disabled_reason == "why"
    down = microversion not in (None, "2.1")
    if down:
        openstack("set", "--down", "host1", "nova-compute")
    found = openstack.listed()["host1"]
    assert (found["Status"], found["State"]) == ("disabled", "down" if down else "up")
    if down:
        openstack("delete", str(found["ID"]))
        assert openstack.listed() == {}


@pytest.mark.needs("mariadb")
def test_a_database_that_hangs_is_a_503_with_a_sentence_until_it_answers(tmp_path, mariadb) -> None:
    port = free_port()
    services = f"http://127.0.0.1:{port}/v2.1/os-services"
    more = f"connection = {mariadb.create('hangs')}\nrest_port = {port}\nauth_strategy = noauth"
    with RegistryProcess(tmp_path, more=more):
        assert fetch(services)[0] == 200
        with mariadb.hung():
            status, _, text = fetch(services)
        assert status == 503, text
        assert "timed out" in json.loads(text)["serviceUnavailable"]["message"]
        eventually(lambda: fetch(services)[0] == 200)


# -- Keystone


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[tuple[TinyKeystone, RegistryProcess, str]]:
    """A Keystone, a registry that asks it, and the URL of its services."""
    port = free_port()
    with TinyKeystone() as keystone:
        more = (
            f"rest_port = {port}\n[keystone_authtoken]\nauth_type = password\n"
            f"auth_url = {keystone.url}/v3\nwww_authenticate_uri = {keystone.url}\n"
            "username = r\npassword = s\nproject_name = service\nhttp_connect_timeout = 5\n"
            "user_domain_id = default\nproject_domain_id = default"
        )
        with RegistryProcess(tmp_path, more=more) as process:
            yield keystone, process, f"http://127.0.0.1:{port}/v2.1/os-services"


def test_invented_tokens_at_a_keystone_that_hangs_delay_no_known_one(
    guarded: tuple[TinyKeystone, RegistryProcess, str],
) -> None:
    keystone, process, services = guarded
    status, headers, _ = fetch(services)
    assert status == 401 and keystone.url in headers["www-authenticate"]
    assert fetch(services, X_Roles="admin", X_Identity_Status="Confirmed")[0] == 401
    assert fetch(services, X_Auth_Token="token-admin")[0] == 200
    keystone.answers.clear()
    answers: list[Any] = []
    threads = [
        threading.Thread(
            target=lambda n=n: answers.append(fetch(services, X_Auth_Token=f"token-{n}"))
        )
        for n in range(90)
    ]
    for each in threads:
        each.start()
    eventually(lambda: len(answers) > 90 - web.THREADS)
    assert fetch(services, X_Auth_Token="token-admin")[0] == 200
    assert len(answers) < len(threads), "some wait for Keystone still"
    for each in threads:
        each.join(60)
    assert {status for status, _, _ in answers} == {503}
    said = {json.loads(text)["serviceUnavailable"]["message"] for _, _, text in answers}
    assert said == {
        "Keystone can't be reached: Keystone did not answer within 5 s: try again in a moment",
        "Keystone can't be reached: Keystone was busy for 2.5 s: try again in a moment",
        "Keystone can't be reached: too many requests wait for Keystone: try again in a moment",
    }
    assert "Traceback" not in process.log
    keystone.answers.set()
    eventually(lambda: fetch(services, X_Auth_Token="token-admin2")[0] == 403)


def status_from(address: str, services: str, token: str) -> int:
    """The status of the answer to a client at this address of the loopback."""
    host, _, path = services.removeprefix("http://").partition("/")
    sent = http.client.HTTPConnection(host, timeout=60, source_address=(address, 0))
    sent.request("GET", f"/{path}", headers={"X-Auth-Token": token})
    return sent.getresponse().status


def test_new_tokens_wait_for_their_turn_and_one_client_holds_up_no_other(
    guarded: tuple[TinyKeystone, RegistryProcess, str],
) -> None:
    keystone, _, services = guarded
    keystone.seconds = 0.03
    with ThreadPoolExecutor(200) as pool:
        many = pool.map(lambda n: status_from("127.0.0.1", services, f"token-{n}"), range(24))
        assert list(many) == [403] * 24, "they are no administrators"
        ended, sent = threading.Event(), itertools.count()

        def invents() -> None:
            while not ended.is_set():
                assert status_from("127.0.0.1", services, f"invented-{next(sent)}") in (401, 503)

        crowd = [pool.submit(invents) for _ in range(60)]
        eventually(lambda: next(sent) > 200)
        admins = [status_from("127.0.0.2", services, f"token-admin{n}") for n in range(1, 6)]
        ended.set()
        assert admins == [403] * 5
        for each in crowd:
            each.result(60)
    assert [status_from("127.0.0.1", services, "bad") for _ in range(5)] == [401] * 5
    assert keystone.checked["bad"] == 1


def test_it_is_not_ready_without_its_broker_and_alive_all_the_same(tmp_path, own_broker) -> None:
    port, metrics = free_port(), free_port()
    more = (
        f"rest_port = {port}\nauth_strategy = noauth\n[monitoring]\nlisten_port = {metrics}\n"
        "[oslo_messaging_rabbit]\nkombu_reconnect_delay = 0.1\n"
    )

    def ready() -> tuple[int, bytes]:
        return fetch(f"http://127.0.0.1:{metrics}/readyz")[::2]

    with RegistryProcess(tmp_path, transport_url=own_broker.url, more=more) as process:
        process.wait_for(lambda: ready() == (200, b"database: ok\nbroker: ok\n"))
        assert fetch(f"http://127.0.0.1:{port}/v2.1/os-services")[0] == 200
        assert b"compute_registry_hosts" in fetch(f"http://127.0.0.1:{metrics}/metrics")[2]
        own_broker.kill9()
        process.wait_for(lambda: b"broker: no connection to the message broker" in ready()[1])
        assert ready()[0] == 503
        assert fetch(f"http://127.0.0.1:{metrics}/healthz")[0] == 200
        process.kill9()
