"""Conditions of a service: audit, page and ``computectl service list`` say the same."""

import argparse
import html
from functools import cache
from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from agent.registry.record import ServiceRecord
from agent.reporting.condition import Condition, Severity
from compute_registry.control import Control
from compute_registry.observed_placement import PlacementRoots
from compute_registry.observed_service import (
    ABSENT,
    GROUPS,
    HEALTHY,
    ObservedService,
    observed_services,
)
from compute_registry.page.trees import PlacementReads
from compute_registry.web import registry_app
from computectl.auditing.checks import REPORTING, STATUS
from computectl.auditing.fleet import FleetAudit
from computectl.reading.services import Observed
from computectl.service import COLUMNS, ListServices
from computectl.shared.screen import Screen
from tests.stranger import FakePlacement
from tests.unit.registry.fakes import OneRecord, record

ROOT = "9cbb8ef1-1a5c-4ba1-9d4b-9b0a05d3c8a1"
DISABLED = "COMPUTE_STATUS_DISABLED"
DOWN_AFTER = 60.0
STATES = ("up", "down", "forced down", "forced down, alive")
STATUSES = ("enabled", "disabled", "disabled by its agent")
PLACEMENTS = ("agrees", "differs", "absent")
MORE = ("", "degraded", "contested")
CASES = [*product(STATES, STATUSES, PLACEMENTS, MORE)]


class PlacementWithoutNames(FakePlacement):
    """It lists no custom traits and no resource classes, which another check of an audit reads."""

    def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        for name in ("traits", "resource_classes"):
            if path.partition("?")[0] == f"/{name}":
                return {name: []}
        return super().request(method, path, **more)


def the_record(state: str, status: str, more: str) -> ServiceRecord:
    reasons = {"disabled": "new disks", "disabled by its agent": "AUTO: libvirt: lost"}
    return record(
        roots=(ROOT,),
        silent_for=7200.0 if state in ("down", "forced down") else 1.0,
        forced_down=state.startswith("forced"),
        disabled=status != "enabled",
        disabled_reason=reasons.get(status),
        degraded="disk: full\n<b>" if more == "degraded" else "",
        contested_by="rack 2" if more == "contested" else None,
    )


class Site:
    """A registry of one host, its page, and a Placement."""

    def __init__(self, status: str, placement: str) -> None:
        self.api, self.registry = PlacementWithoutNames(), OneRecord(record(), [])
        if placement != "absent":
            root = self.api.stranger.create_provider("host1", uuid=ROOT)
            self.api.stranger.add_trait(root, "COMPUTE_NODE")
            if (status == "enabled") == (placement == "differs"):
                self.api.stranger.add_trait(root, DISABLED)
        control = Control(self.registry, None, DOWN_AFTER)
        app = registry_app(control, lambda *_: True, PlacementReads(self.api))
        self.client = app.test_client()


site = cache(Site)
"""An application compiles its templates: one for all cases of a Placement."""


def severities(state: str, status: str, placement: str, more: str) -> dict[str, Severity]:
    """The rule: an error stops guests or misleads the scheduler, a warning is intended."""
    expected = dict[str, Severity]()
    if state == "down":
        intended = status == "disabled"
        expected["no heartbeat"] = Severity.WARNING if intended else Severity.ERROR
    elif state == "forced down":
        expected["no heartbeat"] = Severity.WARNING
    elif state == "forced down, alive":
        expected["is forced down"] = Severity.WARNING
    if status == "disabled by its agent":
        expected["disabled by its agent"] = Severity.DEGRADED
    if placement == "differs":
        expected[f"{status.split()[0]} in its service record"] = Severity.ERROR
    if placement == "absent":
        expected["its root provider"] = Severity.ERROR if state == "up" else Severity.WARNING
    if more == "degraded":
        expected["degraded: disk: full (+1 more)"] = Severity.DEGRADED
    if more == "contested":
        expected["two agents use this host name"] = Severity.ERROR
    return expected


def audited(the: ServiceRecord, api: FakePlacement) -> list[Condition]:
    services = SimpleNamespace(registry=OneRecord(the, []))
    audit = FleetAudit(services, api, frozenset(), None, DOWN_AFTER, print).run()  # type: ignore[arg-type]
    assert audit.unknown == {}
    return [each for each in audit.findings if each.kind in (REPORTING, STATUS)]


def listed(service: ObservedService) -> str:
    answer, given = Observed([service]), argparse.Namespace(state=None, match=None)
    lines = ListServices.draw(SimpleNamespace(), answer, Screen(200), given)  # type: ignore[arg-type]
    return " ".join(" ".join(lines).split())


@pytest.mark.parametrize("case", CASES, ids="-".join)
def test_audit_page_and_list_say_the_same(case: tuple[str, str, str, str]) -> None:
    state, status, placement, more = case
    the, at = the_record(state, status, more), site(status, placement)
    at.registry.held = the
    [service] = observed_services([the], DOWN_AFTER, PlacementRoots().read(at.api))
    expected = severities(*case)
    begun = {
        start: each.severity
        for each in service.conditions
        for start in expected
        if each.text.startswith(start)
    }
    assert begun == expected and len(service.conditions) == len(expected)
    assert all(each.next_step and each.subject == "host1" for each in service.conditions)

    found = {(each.sentence, each.severity) for each in audited(the, at.api)}
    assert found == {(each.sentence, each.severity) for each in service.conditions}

    fleet, host = (at.client.get(path).text for path in ("/fleet", "/fleet/host1"))
    shown, rows = listed(service), COLUMNS["conditions"](service)
    assert rows == [each.sentence for each in service.conditions]
    for each in service.conditions:
        note = html.escape(each.text)
        assert note in fleet and html.escape(each.next_step) in host and each.text in shown
        assert f'<div class="note {each.severity}">{note[0].upper()}{note[1:]}' in host

    is_error = Severity.ERROR in expected.values()
    assert (' class="wrong">' in fleet) is is_error is (service.attention == 0)
    assert (service.attention == HEALTHY) is (not expected and status == "enabled")
    groups = {name for name, belongs in GROUPS.items() if belongs(service)}
    wanted = {"up" if state == "up" else "down", status.split()[0], more}
    assert groups == wanted.union({"differing"} if placement != "agrees" else ()) - {""}


def test_a_record_in_attach_mode_has_a_next_step_too() -> None:
    [service] = observed_services([record(attached=True, roots=(ROOT,))], DOWN_AFTER, None)
    [condition] = service.conditions
    assert (condition.severity, service.attention) == (Severity.INFO, HEALTHY)
    assert "openstack compute service set --disable host1 nova-compute" in condition.next_step


@pytest.mark.parametrize("attached", [False, True])
def test_a_stopped_host_without_a_registry_is_not_forced_down(attached: bool) -> None:
    the = record(attached=attached, roots=(ROOT,), silent_for=None)
    silent = observed_services([the], DOWN_AFTER, None)[0].conditions[0]
    step = "start compute-agent; to take this host out of Placement: computectl retire"
    assert (silent.text.partition(" (")[0], silent.next_step) == ("its agent does not run", step)


def test_a_root_of_nova_that_is_missing_is_found_in_attach_mode_too() -> None:
    the = record(attached=True, roots=(ROOT,), silent_for=7200.0)
    roots = PlacementRoots().read(FakePlacement())
    [silent, attached, absent] = observed_services([the], DOWN_AFTER, roots)[0].conditions
    assert (silent.severity, attached.severity) == (Severity.ERROR, Severity.INFO)
    assert absent.severity is Severity.WARNING and absent.kind == ABSENT
    assert "delete its compute service in Nova, computectl service delete" in silent.next_step


def test_a_root_under_another_uuid_is_named() -> None:
    api = PlacementWithoutNames()
    other = api.stranger.create_provider("host1")
    api.stranger.add_trait(other, "COMPUTE_NODE")
    [found] = audited(record(roots=(ROOT,)), api)
    assert found.next_step == (
        f"host1 is there as {other}; if that is this host: computectl adopt host1 on it"
    )


def test_a_condition_without_a_next_step_is_refused() -> None:
    with pytest.raises(ValueError, match="'it is broken' has no next step"):
        Condition("it is broken", "")
