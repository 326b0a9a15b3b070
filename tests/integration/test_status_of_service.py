"""What ``computectl status`` and ``plan`` say about a host that is disabled, beside the agent."""

from pathlib import Path

import pytest

from agent.registry.checks import StatusChange
from agent.switching.host_status import status_document
from computectl.reading.services import OwnService
from tests.integration.agent_host import Here
from tests.registries import own_service
from tests.servers.placement import RealPlacement

TRAIT = "COMPUTE_STATUS_DISABLED"


@pytest.fixture
def host(placement: RealPlacement, tmp_path: Path) -> Here:
    """One that has reported once, enabled."""
    host = Here.configured(tmp_path, placement.url)
    host.report('nodes: {"{host}": {inventory: {VCPU: 8}}}\n')
    return host


@pytest.fixture
def service(host: Here) -> OwnService:
    return own_service(host.config)


def root_of(host: Here) -> str:
    return host.compute_id.read_text().strip()


def test_the_status_says_who_disabled_it_and_why(host: Here, service: OwnService) -> None:
    service.set_status(StatusChange("host1", disabled=True, reason="new disks"))
    assert host.agent().code == 0
    drawn = host.ctl("status").out
    assert "  service: disabled (new disks); calls over RPC: none\n" in drawn
    (row,) = host.ctl("status", "-f", "json").json()
    service = {"disabled": True, "reason": "new disks", "conditions": [], "rpc": "none"}
    assert row["service"].items() >= service.items()


def test_a_plan_foresees_what_the_status_asks_for(host, service: OwnService, placement) -> None:
    service.set_status(StatusChange("host1", disabled=True, reason="new disks"))
    (row,) = host.ctl("plan", "-f", "json").json()
    assert (row["method"], row["path"]) == ("PUT", f"/resource_providers/{root_of(host)}/traits")
    assert TRAIT in row["body"]["traits"]
    assert TRAIT not in placement.stranger.traits(root_of(host)), "a plan only looks"
    mark = placement.mark()
    assert host.agent().code == 0
    writes = [f"{each.method} {each.path}" for each in placement.since(mark) if each.is_write]
    assert writes == [f"{row['method']} {row['path']}"], "the period does what the plan said"
    assert "nothing would change" in host.ctl("plan").out
    service.set_status(StatusChange("host1", disabled=False))
    (row,) = host.ctl("plan", "-f", "json").json()
    assert TRAIT not in row["body"]["traits"]


def test_a_plan_without_a_known_status_leaves_the_trait(host: Here, placement) -> None:
    placement.stranger.add_trait(root_of(host), TRAIT)
    path = status_document(host.directory / "state").path
    path.unlink(missing_ok=True)
    assert "nothing would change" in host.ctl("plan").out
    path.write_text("{")
    said = host.ctl("plan")
    assert said.code == 1
    assert f"whether this host is disabled is not known: {path}" in said.err
