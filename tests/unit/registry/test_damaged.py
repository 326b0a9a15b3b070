"""One unreadable row hides no other, and a damaged file is replaced by its own agent only."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any
from wsgiref.util import setup_testing_defaults

import pytest

from agent.registry import wire
from agent.registry.access import Registry, open_registry
from agent.registry.control import Control
from agent.registry.errors import RegistryUnavailable, Unreadable
from agent.registry.observed_service import ObservedService
from agent.registry.opts import RegistrySettings
from agent.registry.store import SqlRegistry
from compute_registry.rest.application import ComputeApplication
from compute_registry.web import with_discovery
from tests import registries
from tests.registries import FILE, registry_at

ROOT = "6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca"
HOSTS = ["host1", "host2", "host3"]


@pytest.fixture
def registry(tmp_path: Path) -> SqlRegistry:
    found = registry_at(tmp_path)
    for host in HOSTS:
        found.heartbeat(host, "a1", "6.1", (ROOT,))
    return found


def damage(registry: SqlRegistry, said: str) -> None:
    change = f"UPDATE services SET {said} WHERE host = 'host2'"
    registry.database.run(lambda sent: sent.change(change))


def get(registry: SqlRegistry, path: str, status: str = "200 OK") -> Any:
    application = with_discovery(ComputeApplication(Control(registry, None)))
    environ: dict[str, Any] = {"REQUEST_METHOD": "GET", "PATH_INFO": path}
    environ |= {"wsgi.input": io.BytesIO(), "HTTP_OPENSTACK_API_VERSION": "compute 2.100"}
    setup_testing_defaults(environ)
    statuses: list[str] = []
    answer = b"".join(application(environ, lambda status, _: statuses.append(status)))
    assert statuses == [status], answer
    return json.loads(answer)


@pytest.mark.parametrize(
    ("said", "is_unreadable"),
    [
        ("disabled_at = 1e300", True),
        ("disabled_at = 'yesterday'", True),
        ("last_seen = 9e999", True),
        ("last_seen = -1e300", True),
        ("""roots = '["one", "two"]'""", True),
        ("roots = x'ff00'", True),
        ("disabled_reason = x'ff00', address = x'01'", True),
        ("version = 'new', rpc_version = x'01'", True),
        ("uuid = x'01', binary = x'02'", True),
        ("disabled_reason = CAST(x'ff41' AS TEXT)", False),
    ],
)
def test_an_unreadable_record_is_a_line_and_hides_no_other(
    registry: SqlRegistry, said: str, is_unreadable: bool
) -> None:
    damage(registry, said)
    found = registry.list_services()
    assert [each.host for each in found] == HOSTS
    assert [each.unreadable for each in found] == [False, is_unreadable, False]
    sent = json.loads(json.dumps([wire.to_wire(each) for each in found], allow_nan=False))
    assert [wire.from_wire(each) for each in sent] == found
    services = get(registry, "/v2.1/os-services")["services"]
    assert [each["host"] for each in services] == HOSTS
    assert services[1]["status"] == ("unreadable" if is_unreadable else "enabled")
    get(registry, "/v2.1/os-hypervisors/detail")
    zones = get(registry, "/v2.1/os-availability-zone/detail")["availabilityZoneInfo"]
    assert ("host2" in zones[0]["hosts"]) is not is_unreadable


def test_an_unreadable_record_is_not_changed_but_deleted_and_created_again(
    registry: SqlRegistry,
) -> None:
    uuid = registry.get_service("host2").uuid
    damage(registry, "version = 'new', last_seen = 'now'")
    conflict = get(registry, f"/v2.1/os-services/{uuid}", "409 Conflict")["conflictingRequest"]
    assert "computectl service delete" in conflict["message"]
    for call in (
        lambda: registry.get_service("host2"),
        lambda: registry.heartbeat("host2", "a1", "6.1", (ROOT,)),
        lambda: registry.set_status("host2", disabled=False, expected_version=1),
        lambda: registry.set_forced_down("host2", forced_down=True),
    ):
        with pytest.raises(Unreadable, match="host2 is unreadable: delete it with"):
            call()
    registry.delete("host2")
    assert not registry.heartbeat("host2", "a1", "6.1", (ROOT,)).unreadable


def test_an_unreadable_record_is_a_line_of_the_log_and_what_overwrites_it_another(
    registry: SqlRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "compute_agent.registry")
    damage(registry, "roots = '?'")
    for _ in range(3):
        (condition,) = [
            condition
            for one in registry.list_services()
            for condition in ObservedService(one, up=True).conditions()
        ]
    assert str(condition) == "host2: its record is unreadable"
    assert condition.next_step.startswith("delete it with computectl service delete")
    assert not registry.heartbeat("host2", "a1", "6.1", (ROOT,)).unreadable
    first, last = caplog.messages
    assert first == f"The record of host2 is unreadable: {condition.next_step}"
    assert last == "The record of host2 can be read again"


# -- the file itself


def _as_it_is(content: bytes) -> bytes:
    return content


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _scribbled(content: bytes) -> bytes:
    return content[:4096] + b"\xff" * (len(content) - 4096)


def _other(content: bytes) -> bytes:
    return b"no database at all" * 300


def _file_of(tmp_path: Path, damage: Callable[[bytes], bytes]) -> Path:
    file = tmp_path / FILE
    with registries.registry(tmp_path) as store:
        store.heartbeat("host1", "a1", "6.1", (ROOT,))
    file.write_bytes(damage(file.read_bytes()))
    return file


def _opened_by(host: str, file: Path) -> Registry:
    settings = RegistrySettings("direct", f"sqlite:///{file}", 60.0, 10.0, "b", "", None, "noauth2")
    return open_registry(settings, None, host=host)


@pytest.mark.parametrize("damage", [_cut, _scribbled, _other])
def test_the_agent_of_the_host_sets_a_damaged_file_aside_and_begins_anew(
    tmp_path: Path, damage: Callable[[bytes], bytes], caplog: pytest.LogCaptureFixture
) -> None:
    file = _file_of(tmp_path, damage)
    kept = file.read_bytes()
    found = _opened_by("host1", file)
    found.heartbeat("host1", "a1", "6.1", (ROOT,))
    assert found.get_service("host1").roots == (ROOT,)
    assert (tmp_path / "services.sqlite.damaged").read_bytes() == kept, "for somebody to look at"
    assert "the file is damaged, it is now" in caplog.text


@pytest.mark.parametrize("damage", [_cut, _scribbled, _other])
def test_a_command_leaves_it_to_the_agent(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    """It may be root's, whose file the agent could not write."""
    file = _file_of(tmp_path, damage)
    with pytest.raises(RegistryUnavailable):
        _opened_by("", file)
    assert not (tmp_path / "services.sqlite.damaged").exists()


def test_a_file_that_is_well_is_left(tmp_path: Path) -> None:
    found = _opened_by("host1", _file_of(tmp_path, _as_it_is))
    assert found.get_service("host1").roots == (ROOT,)
