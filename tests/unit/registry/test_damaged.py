"""One damaged row hides no other: it is listed with what can be read, and is named."""

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
from agent.registry.errors import RegistryUnavailable
from agent.registry.observed_service import ObservedService
from agent.registry.opts import RegistrySettings
from agent.registry.store import SqlRegistry
from compute_registry.rest.application import ComputeApplication, Discovery
from compute_registry.web import WithRequestId
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


def get(registry: SqlRegistry, path: str) -> Any:
    application = WithRequestId(Discovery(ComputeApplication(Control(registry, None))))
    environ: dict[str, Any] = {"REQUEST_METHOD": "GET", "PATH_INFO": path}
    environ |= {"wsgi.input": io.BytesIO(), "HTTP_OPENSTACK_API_VERSION": "compute 2.100"}
    setup_testing_defaults(environ)
    statuses: list[str] = []
    answer = b"".join(application(environ, lambda status, _: statuses.append(status)))
    assert statuses == ["200 OK"], answer
    return json.loads(answer)


@pytest.mark.parametrize(
    ("said", "damaged"),
    [
        ("disabled_at = 1e300", ["disabled_at"]),
        ("disabled_at = 'yesterday'", ["disabled_at"]),
        ("last_seen = 9e999", ["last_seen"]),
        ("last_seen = -1e300", ["last_seen"]),
        ("""roots = '["one", "two"]'""", ["roots"]),
        ("roots = x'ff00'", ["roots"]),
        ("disabled_reason = x'ff00', address = x'01'", ["disabled_reason", "address"]),
        ("version = 'new', rpc_version = x'01'", ["rpc_version", "version"]),
        ("uuid = x'01', binary = x'02'", ["uuid", "binary"]),
        ("disabled_reason = CAST(x'ff41' AS TEXT)", []),
    ],
)
def test_a_damaged_record_is_listed_and_named_and_so_are_all_others(
    registry: SqlRegistry, said: str, damaged: list[str]
) -> None:
    damage(registry, said)
    found = registry.list_services()
    assert [each.host for each in found] == HOSTS
    assert [list(each.damaged) for each in found] == [[], damaged, []]
    sent = json.loads(json.dumps([wire.to_wire(each) for each in found], allow_nan=False))
    assert [wire.from_wire(each) for each in sent] == found
    services = get(registry, "/v2.1/os-services")["services"]
    assert [each["host"] for each in services] == HOSTS
    get(registry, "/v2.1/os-hypervisors/detail")
    get(registry, "/v2.1/os-availability-zone/detail")


def test_of_roots_those_that_can_be_read_count(registry: SqlRegistry) -> None:
    damage(registry, f"roots = '{ROOT} ;'")
    assert registry.get_service("host2").roots == (ROOT,)


def test_that_it_is_damaged_and_whole_again_is_a_line_each(
    registry: SqlRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "agent.registry.store")
    damage(registry, "roots = '?', disabled_at = 1e300, disabled = 1")
    for _ in range(3):
        (text,) = [
            condition.text
            for one in registry.list_services()
            for condition in ObservedService(one, up=True).conditions()
        ]
    assert text == "The record of host2 is damaged: can't read disabled_at, roots"
    registry.heartbeat("host2", "a1", "6.1", (ROOT,))
    mended = registry.set_status("host2", disabled=True, reason="new disks")
    assert (mended.damaged, mended.disabled_at is None) == ((), False)
    registry.list_services()
    first, second, last = caplog.messages
    assert first.startswith(f"{text}; ") and "can't read disabled_at;" in second
    assert last == "The record of host2 can be read in full again"


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
