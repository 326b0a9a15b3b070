"""What a plan says of drivers that are broken: no less than the agent, which lives on."""

from pathlib import Path

import pytest

from computectl.reading.forecast import forecast_root
from tests.agents import Agent, Idle
from tests.integration.agent_host import AgentHost
from tests.kit.installed import SETS_ALL_TRAITS, install
from tests.stranger import FakePlacement

ROOT, NODE = "c0ffee00-0000-4000-8000-00000000000a", "compute1"


class Unsure(Idle):
    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        provider_tree.update_inventory(nodename, {"VCPU": {"total": 8}})

    def degraded(self, node):
        raise RuntimeError("no idea")


def test_a_driver_that_can_not_say_how_it_is_does_not_end_the_plan() -> None:
    placement = FakePlacement()
    nodes = Agent(placement, named={"unsure": Unsure([NODE])}, root=ROOT).nodes
    nodes.current()
    (tracker,) = nodes.trackers.values()
    foreseen = forecast_root(tracker, nodes, placement, False, None)
    assert foreseen.calls
    assert any("degraded() failed: " in said for said in map(str, foreseen.conditions))
    (report,) = nodes.period(0.0)
    assert report.conditions == foreseen.conditions, "the agent says the same"


@pytest.mark.slow
def test_what_a_driver_prints_is_no_part_of_a_plan_for_programs(tmp_path: Path) -> None:
    prints = f'print("loaded")\n{SETS_ALL_TRAITS}'.replace(
        "        return [", '        print("asked")\n        return ['
    )
    site = install(tmp_path / "site", "prints", prints)
    host = AgentHost(tmp_path, "http://127.0.0.1:1")
    host.configure(driver="prints")
    said = host.ctl("plan", "-f", "json", PYTHONPATH=str(site))
    assert said.out == "", "there is no Placement"
    assert {"loaded", "asked"} <= set(said.err.splitlines())
