"""benchmarks/fleet: its smallest form, and what is made of its results."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.fleet import nova
from benchmarks.fleet.extrapolated import Unit, agent_calls, cores
from benchmarks.fleet.page import page

REPOSITORY = Path(__file__).resolve().parents[2]
PARTS = (
    "placement", "placement's database", "broker", "registry", "registry's database", "hosts",
)  # fmt: skip


def test_novas_calls_are_its_formulas_for_33_providers_and_20_guests():
    assert (nova.PERIOD, nova.REFRESH) == (54, 155)
    assert round(nova.A_SECOND, 2) == 1.24
    assert nova.CALLS_ONCE["a rack boots, cold"] == 167


def test_ten_thousand_hosts_send_less_than_40_requests_a_second():
    assert agent_calls(10_000, 1) < agent_calls(10_000, 2) < 40


def scenario(name, **more):
    cpu, memory = dict.fromkeys(PARTS, 2.0), dict.fromkeys(PARTS, 100.0)
    found = {
        "name": name, "hosts": 10, "seconds": 60.0, "calls": 100, "writes": 3, "refused": 0,
        "worst_minute": 2.0, "right_after": None, "in_placement": {"p95": 5.0},
        "seen_by_agents": {}, "heartbeats": 50, "heartbeats_lost": 0, "cpu": cpu,
        "memory": memory, "queued": 0,
    }  # fmt: skip
    return found | more


RESULTS = {
    "date": "2026-01-01", "commit": "abc", "hosts": 10, "rack": 1, "providers": 33, "guests": 20,
    "workers": 2, "processors": 2,
    "load": 1.0, "compressed": 10, "heartbeat": 10,
    "scenarios": [scenario("a quiet hour"), scenario("a rack boots, cold", right_after=4.5)],
}  # fmt: skip


def test_each_event_costs_what_it_cost_in_the_run():
    unit = Unit.of(RESULTS)
    assert unit.request["placement"] == 4.0 / 200
    assert unit.beat["broker"] == 4.0 / 100
    assert cores(unit, "broker", 1000) == 4.0


def test_the_page_has_each_scenario_and_what_nova_sends_then():
    text = "\n".join(page([RESULTS]))
    assert "a rack boots, cold" in text and "- 4.5" in text
    assert f"- {nova.A_SECOND * 600 * 10:.0f}" in text


@pytest.mark.faults
@pytest.mark.timeout(900)
@pytest.mark.needs("rabbitmq", "mariadb")
def test_the_smallest_fleet_goes_through_all_scenarios_and_ends_right(tmp_path):
    out = tmp_path / "measured.json"
    small = ("--hosts", "6", "--rack", "2", "--quiet-minutes", "2", "--processes", "2")
    subprocess.run(
        [sys.executable, "-m", "benchmarks.fleet", *small, "--heartbeat", "2", "--out", str(out)],
        cwd=REPOSITORY,
        check=True,
        timeout=800,
    )
    found = {one["name"]: one for one in json.loads(out.read_text())["scenarios"]}
    assert len(found) == 11
    ended = found["the registry's thread of heartbeats ended"]["also"]
    assert list(ended.values()) == [1, 0, 0], ended
    assert found["a site boots"]["calls"] == 4, "one GET from each host"
    assert found["a rack boots, cold"]["writes"] <= 2 * (33 + 33 + 1 + 3)
    assert found["Placement is back after ten minutes"]["refused"] > 0
    assert found["all hosts are disabled"]["writes"] == 6
    assert found["a rack boots, cold"]["also"]["ready after so many times that"] > 0
    right = [one["right_after"] for name, one in found.items() if name != "a quiet hour"]
    assert None not in right
    assert {one["queued"] for one in found.values()} == {0}
