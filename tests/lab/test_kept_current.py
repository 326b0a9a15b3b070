"""A running agent on the lab: a card is plugged in and out, its libvirtd is killed or hung.

Its period is ten minutes: nothing here waits for one.
"""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.switched import has_trait, options, root_of, status_of
from tests.servers.agent import AgentProcess
from tests.servers.lab import CARD, NODE, Lab
from tests.servers.placement import RealPlacement

CLASS = "CUSTOM_PCI_8086_10D3"
PROVIDER = f"{NODE}_{CARD}"
SETTINGS = """
[libvirt]
connection_uri = {uri}
virt_type = qemu
report_numa = nested
connection_timeout = 5
call_timeout = 30
keepalive_interval = 1
keepalive_count = 3
[pci]
report_in_placement = true
device_spec = {{"vendor_id": "8086", "product_id": "10d3"}}
"""


@pytest.fixture
def agent(tmp_path: Path, placement: RealPlacement, lab: Lab) -> Iterator[AgentProcess]:
    text = options(more=SETTINGS.format(uri=lab.uri()))
    with AgentProcess(tmp_path, placement.url, options=text, compute_driver="libvirt") as agent:
        agent.until(lambda: is_ok(agent))
        yield agent


def is_ok(agent: AgentProcess) -> bool:
    if not (agent.state_path / "status.json").exists():
        return False
    return [node["ok"] for node in status_of(agent)["nodes"]] == [True]


def card(placement: RealPlacement) -> dict | None:
    found = placement.providers(f"?name={PROVIDER}")
    return found[0] if found else None


def is_offered(placement: RealPlacement) -> bool:
    found = card(placement)
    return found is not None and CLASS in placement.stranger.inventory(found["uuid"])


def seconds_until(agent: AgentProcess, condition: Callable[[], object]) -> float:
    began = time.monotonic()
    agent.until(condition)
    return time.monotonic() - began


def test_a_card_that_is_plugged_in_or_out_is_in_placement_or_gone_soon(
    lab, agent, placement, measured
):
    assert card(placement) is None
    lab.plug()  # the next period is far: what comes within a minute came by the event
    there = seconds_until(agent, lambda: is_offered(placement))
    measured("from plugged in to offered in Placement", there)
    parent = placement.stranger.provider(card(placement)["parent_provider_uuid"])
    assert parent["name"] == f"{NODE}_numa1"
    lab.unplug()
    away = seconds_until(agent, lambda: card(placement) is None)
    measured("from given up by the kernel to gone from Placement", away)


@pytest.mark.parametrize("signal", ["KILL", "STOP"])
def test_its_libvirtd_lost_disables_and_back_it_enables(lab, agent, placement, signal):
    root = root_of(agent)
    lab.run(f"pkill -{signal} -x libvirtd")
    agent.until(lambda: has_trait(placement, root))
    if signal == "STOP":
        lab.revive()
    agent.until(lambda: not has_trait(placement, root), 120)


def test_a_card_plugged_in_while_libvirtd_was_away_is_found_afterwards(lab, agent, placement):
    root = root_of(agent)
    lab.run("pkill -STOP -x libvirtd")
    agent.until(lambda: has_trait(placement, root))
    lab.plug()
    lab.run("pkill -KILL -x libvirtd")
    agent.until(lambda: card(placement), 120)
    agent.until(lambda: not has_trait(placement, root))
