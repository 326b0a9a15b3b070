"""One unreadable record hides no other."""

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from agent.registry import wire
from agent.registry.checks import Report, StatusChange
from agent.registry.control import Control
from agent.registry.errors import Unreadable
from agent.registry.observed_service import ObservedService
from compute_registry import service
from compute_registry.store import SqlRegistry
from compute_registry.web import registry_app
from tests.registries import registry_at
from tests.servers import records

ROOT = "6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca"
HOSTS = ["host1", "host2", "host3"]


@pytest.fixture
def registry(tmp_path: Path) -> SqlRegistry:
    found = registry_at(tmp_path)
    for host in HOSTS:
        found.heartbeat(Report(host, "a1", "6.1", (ROOT,)))
    return found


def damage(registry: SqlRegistry, **values: object) -> None:
    records.write(registry.database, "host2", **values)


def get(registry: SqlRegistry, path: str, status: int = 200) -> Any:
    version = {"OpenStack-API-Version": "compute 2.100"}
    answer = registry_app(Control(registry, None)).test_client().get(path, headers=version)
    assert answer.status_code == status, answer.text
    return answer.json


@pytest.mark.parametrize(
    ("values", "is_unreadable"),
    [
        ({"disabled_at": 1e300}, True),
        ({"last_seen": -1e300}, True),
        ({"last_seen": 9e999}, True),
        ({"disabled_reason": "a\x1b"}, False),
    ],
)
def test_an_unreadable_record_is_a_line_and_hides_no_other(
    registry: SqlRegistry, values: dict[str, object], is_unreadable: bool
) -> None:
    damage(registry, **values)
    found = registry.list_services()
    assert [each.host for each in found] == HOSTS
    assert [each.unreadable for each in found] == [False, is_unreadable, False]
    sent = json.loads(json.dumps([wire.to_wire(each) for each in found], allow_nan=False))
    assert [wire.from_wire(each) for each in sent] == found
    services = get(registry, "/v2.1/os-services")["services"]
    assert [each["host"] for each in services] == HOSTS
    assert services[1]["status"] == ("unreadable" if is_unreadable else "enabled")


def test_an_unreadable_record_is_not_changed_but_deleted_and_created_again(
    registry: SqlRegistry,
) -> None:
    uuid = registry.get_service("host2").uuid
    damage(registry, disabled_at=1e300, last_seen=1e300)
    conflict = get(registry, f"/v2.1/os-services/{uuid}", 409)["conflictingRequest"]
    assert "computectl service delete" in conflict["message"]
    for call in (
        lambda: registry.get_service("host2"),
        lambda: registry.heartbeat(Report("host2", "a1", "6.1", (ROOT,))),
        lambda: registry.set_status(StatusChange("host2", disabled=False, expected_version=1)),
        lambda: registry.set_forced_down("host2", forced_down=True),
    ):
        with pytest.raises(Unreadable, match="host2 is unreadable: delete it with"):
            call()
    registry.delete("host2")
    assert not registry.heartbeat(Report("host2", "a1", "6.1", (ROOT,))).unreadable


def test_an_unreadable_record_is_one_line_of_the_log(
    registry: SqlRegistry, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "compute_registry.store")
    damage(registry, last_seen=1e300)
    (condition,) = [
        condition
        for one in registry.list_services()
        for condition in ObservedService(one, up=True).conditions()
    ]
    assert str(condition) == "host2: its record is unreadable"
    assert condition.next_step.startswith("delete it with computectl service delete")
    assert not registry.heartbeat(Report("host2", "a1", "6.1", (ROOT,))).unreadable
    line = caplog.records[0]
    assert line.getMessage() == f"The record of host2 is unreadable: {condition.next_step}"
    assert line.name in service.REPEATING
