"""One damaged record hides no other."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.registry import wire
from agent.registry.checks import HeartbeatMessage, StatusChange
from compute_registry.control import Control
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
        found.heartbeat(HeartbeatMessage(host, "a1", "6.1", (ROOT,)))
    return found


def damage(registry: SqlRegistry, **values: object) -> None:
    records.write(registry.database, "host2", **values)


def get(registry: SqlRegistry, path: str, status: int = 200) -> Any:
    version = {"OpenStack-API-Version": "compute 2.100"}
    answer = registry_app(Control(registry, None)).test_client().get(path, headers=version)
    assert answer.status_code == status, answer.text
    return answer.json


@pytest.mark.parametrize(
    ("values", "seen"),
    [({"disabled_at": 1e300}, True), ({"last_seen": -1e300}, False), ({"last_seen": 9e999}, False)],
)
def test_what_is_no_time_is_unknown_and_hides_no_other_record(
    registry: SqlRegistry, values: dict[str, object], seen: bool
) -> None:
    registry.set_status(StatusChange("host2", disabled=True))
    damage(registry, **values)
    found = registry.list_services()
    assert [each.host for each in found] == HOSTS
    assert [each.disabled for each in found] == [False, True, False]
    assert (found[1].disabled_at, bool(found[1].last_seen)) == (None, seen) or not seen
    sent = json.loads(json.dumps([wire.to_wire(each) for each in found], allow_nan=False))
    assert [wire.from_wire(each) for each in sent] == found
    services = get(registry, "/v2.1/os-services")["services"]
    assert [each["host"] for each in services] == HOSTS
    assert registry.heartbeat(HeartbeatMessage("host2", "a1", "6.1", (ROOT,))).last_seen
