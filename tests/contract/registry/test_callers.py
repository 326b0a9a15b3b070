"""What a caller may rely on: a fleet's store, over RPC and REST alike."""

import uuid as uuidlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from agent.errors import RegistryError, UnknownHost
from agent.registry.checks import HeartbeatMessage, StatusChange
from agent.registry.client import RegistryClient
from agent.registry.record import Registry
from compute_registry.control import Control
from compute_registry.endpoint import RegistryEndpoint
from compute_registry.web import registry_app
from tests.registries import answering, registry_at
from tests.servers import records
from tests.servers.databases import MariaDB

ROOT = "6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca"
MARIADB = pytest.param("mariadb", marks=[pytest.mark.slow, pytest.mark.needs("mariadb")])


class Seen(NamedTuple):
    """A service as its callers see it."""

    up: bool
    disabled: bool
    reason: str | None
    forced_down: bool


class Refused(Exception):
    """The registry refuses a change."""


class Methods:
    """By the methods of a registry, also over RPC."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def hosts(self) -> list[str]:
        return [record.host for record in self.registry.list_services()]

    def seen(self, host: str) -> Seen:
        found = self.registry.get_service(host)
        return Seen(found.is_up(), found.disabled, found.disabled_reason, found.forced_down)

    def disable(self, host: str, reason: str | None = None) -> None:
        self._change(self._set, host, disabled=True, reason=reason)

    def enable(self, host: str) -> None:
        self._change(self._set, host, disabled=False)

    def force_down(self, host: str, forced: bool) -> None:
        self._change(self.registry.set_forced_down, host, forced_down=forced)

    def delete(self, host: str) -> None:
        self._change(self.registry.delete, host)

    def _set(self, host: str, **change: Any) -> None:
        self.registry.set_status(StatusChange(host, **change))

    def _change(self, method: Callable[..., object], host: str, **values: object) -> None:
        try:
            method(host, **values)
        except UnknownHost:
            raise
        except RegistryError as err:
            raise Refused(str(err)) from None


class Rest:
    """As openstackclient does, with microversion 2.53 and later."""

    def __init__(self, registry: Registry) -> None:
        self.client = registry_app(Control(registry, None)).test_client()

    def hosts(self) -> list[str]:
        return [service["host"] for service in self._send("GET")["services"]]

    def seen(self, host: str) -> Seen:
        (found,) = self._send("GET", f"?host={host}")["services"] or [None]
        if found is None:
            raise UnknownHost(host)
        return Seen(
            found["state"] == "up" and not found["forced_down"],
            found["status"] == "disabled",
            found["disabled_reason"],
            found["forced_down"],
        )

    def disable(self, host: str, reason: str | None = None) -> None:
        more = {} if reason is None else {"disabled_reason": reason}
        self._send("PUT", self._id(host), {"status": "disabled", **more})

    def enable(self, host: str) -> None:
        self._send("PUT", self._id(host), {"status": "enabled"})

    def force_down(self, host: str, forced: bool) -> None:
        self._send("PUT", self._id(host), {"forced_down": forced})

    def delete(self, host: str) -> None:
        self._send("DELETE", self._id(host))

    def _id(self, host: str) -> str:
        (found,) = self._send("GET", f"?host={host}")["services"] or [None]
        if found is None:
            raise UnknownHost(host)
        return f"/{found['id']}"

    def _send(self, method: str, rest: str = "", body: Any = None) -> Any:
        version = {"OpenStack-API-Version": "compute 2.69"}
        path = f"/v2.1/os-services{rest}"
        answer = self.client.open(path, method=method, json=body, headers=version)
        if answer.status_code >= 400:
            raise Refused(answer.text)
        return answer.json


class World(NamedTuple):
    """A registry, a caller, and what ends a host's heartbeats."""

    registry: Registry
    caller: Methods | Rest
    falls_silent: Callable[[], object]

    def beats(self, host: str = "host1") -> None:
        self.registry.heartbeat(
            HeartbeatMessage(host, "here", "6.5", [ROOT] if host == "host1" else [])
        )


@pytest.fixture(scope="module")
def mariadb() -> Iterator[MariaDB]:
    with MariaDB() as server:
        yield server


@pytest.fixture(params=["sqlite", MARIADB])
def registry(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    where: Path | str = tmp_path
    if request.param == "mariadb":
        where = request.getfixturevalue("mariadb").create(f"r{uuidlib.uuid4().hex[:12]}")
    store = registry_at(where)
    yield store
    store.database.dispose()


@pytest.fixture(params=["methods", "rpc", "rest"])
def world(request: pytest.FixtureRequest, registry: Any) -> Iterator[World]:
    def falls_silent() -> None:
        records.later(registry.database, 1000)

    if request.param == "rpc":
        with answering(RegistryEndpoint(registry)) as bus:
            yield World(registry, Methods(RegistryClient(bus)), falls_silent)
        return
    caller = Rest(registry) if request.param == "rest" else Methods(registry)
    yield World(registry, caller, falls_silent)


def test_a_host_is_up_from_its_first_heartbeat_until_it_falls_silent(world: World) -> None:
    assert world.caller.hosts() == []
    world.beats()
    assert world.caller.hosts() == ["host1"]
    assert world.caller.seen("host1") == Seen(True, False, None, False)
    world.falls_silent()
    assert not world.caller.seen("host1").up


def test_a_host_is_disabled_with_a_reason_until_it_is_enabled(world: World) -> None:
    world.beats()
    world.caller.disable("host1", "new disks — “soon”")
    world.beats()
    assert world.caller.seen("host1") == Seen(True, True, "new disks — “soon”", False)
    world.caller.enable("host1")
    assert world.caller.seen("host1") == Seen(True, False, None, False)
    world.caller.disable("host1")
    assert world.caller.seen("host1").reason is None


def test_a_reason_that_is_too_long_is_refused_and_nothing_changes(world: World) -> None:
    world.beats()
    with pytest.raises(Refused):
        world.caller.disable("host1", "x" * 300)
    assert world.caller.seen("host1") == Seen(True, False, None, False)


def test_a_host_that_is_forced_down_is_down_whatever_it_says(world: World) -> None:
    world.beats()
    world.caller.force_down("host1", True)
    world.beats()
    assert world.caller.seen("host1")[::3] == (False, True)
    world.caller.force_down("host1", False)
    assert world.caller.seen("host1").up


def test_a_host_is_deleted_once_it_is_down_or_forced_down(world: World) -> None:
    world.beats()
    with pytest.raises(Refused, match="up"):
        world.caller.delete("host1")
    world.falls_silent()
    world.caller.delete("host1")
    assert world.caller.hosts() == []
    world.beats()
    world.caller.force_down("host1", True)
    world.caller.delete("host1")
    assert world.caller.hosts() == []


def test_of_an_unknown_host_nothing_is_made(world: World) -> None:
    for call in (world.caller.enable, world.caller.disable, world.caller.delete, world.caller.seen):
        with pytest.raises(UnknownHost):
            call("host9")
    assert world.caller.hosts() == []
