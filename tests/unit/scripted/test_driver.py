"""What the scripted driver makes of a tree, period after period."""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from textwrap import dedent
from types import SimpleNamespace

import pytest

from driverkit.scripted import FakeDriver
from driverkit.scripted.driver import ScriptedError
from driverkit.scripted.script import ScriptError
from drivers import api
from drivers.abilities import Configurable, Degradable, Identified, Lifecycle
from reportclient.client import Client
from reportclient.errors import Unreachable
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import EMPTY, Snapshot
from reportclient.testing.fake_placement import FakePlacement
from tests.agents import OWNER, Agent

ROOT = "11111111-1111-4111-8111-111111111111"
AGG = "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01"
OTHER_AGG = "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a02"


class Bench:
    """A driver, and a Placement that believes all that it says."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "demo.yaml"
        self.folder = folder
        self.slept: list[float] = []
        self.snapshots: dict[str, Snapshot] = {}
        self.driver: FakeDriver

    def script(self, text: str) -> Bench:
        self.path.write_text(dedent(text))
        # Two edits within one tick of the file system's clock still differ.
        later = self.path.stat().st_mtime_ns + len(self.snapshots) + 1
        os.utime(self.path, ns=(later, later))
        return self

    def start(self, text: str | None = None) -> Bench:
        if text is not None:
            self.script(text)
        conf = SimpleNamespace(fake=SimpleNamespace(script=str(self.path)))
        context = api.DriverContext("h1", self.folder, conf)
        self.driver = FakeDriver(context, sleep=self.slept.append)
        self.driver.init_host("h1")
        return self

    def before(self, node: str) -> Snapshot:
        if node not in self.snapshots:
            tree = ProviderTree(EMPTY)
            tree.new_root(node, ROOT if node == "h1" else str(uuid.uuid5(uuid.UUID(ROOT), node)))
            self.snapshots[node] = tree.freeze()
        return self.snapshots[node]

    def period(self, node: str = "h1") -> ProviderTree:
        tree = ProviderTree(self.before(node))
        self.driver.update_provider_tree(tree, node)
        self.snapshots[node] = tree.freeze()
        return tree

    def periods(self, count: int) -> ProviderTree:
        for _ in range(count):
            tree = self.period()
        return tree

    def stranger(self, edit) -> None:
        tree = ProviderTree(self.before("h1"))
        edit(tree)
        self.snapshots["h1"] = tree.freeze()

    def names(self) -> list[str]:
        return sorted(provider.name for provider in self.before("h1").walk())


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


NESTED = f"""
nodes:
  h1:
    inventory: {{VCPU: 8}}
    traits: [CUSTOM_HOST]
    aggregates: [{AGG}]
    children:
      numa0:
        children:
          pf0: {{inventory: {{SRIOV_NET_VF: 4}}, traits: [CUSTOM_NET]}}
    sharing:
      nfs: {{inventory: {{DISK_GB: 100}}, aggregates: [{AGG}]}}
"""


def test_the_tree_says_what_the_script_says(bench):
    tree = bench.start(NESTED).period()
    assert tree.data("h1").inventory == {"VCPU": {"total": 8}}
    assert tree.data("h1").traits == {"CUSTOM_HOST"}
    assert tree.data("h1_numa0_pf0").parent_uuid == tree.data("h1_numa0").uuid
    assert tree.data("h1_numa0_pf0").inventory == {"SRIOV_NET_VF": {"total": 4}}
    assert tree.data("h1_nfs").parent_uuid is None
    assert tree.data("h1_nfs").aggregates == {AGG}
    assert tree.has_sharing_provider("DISK_GB")


def test_what_the_script_has_no_longer_goes_even_after_a_restart(bench):
    bench.start(NESTED).period()
    bench.start("nodes: {h1: }").period()
    assert bench.names() == ["h1"]
    assert not bench.before("h1").named("h1").inventory


class Reported(Bench):
    """The driver in an agent, whose ledger has its traits and aggregates, and a Placement."""

    def start(self, text: str | None = None) -> Reported:
        super().start(text)
        self.placement = FakePlacement()
        named = {"fake": self.driver}
        self.agent = Agent(self.placement, named=named, root=ROOT, state=self.folder / "state")
        return self

    def restart(self) -> None:
        super().start()
        self.agent.named = {"fake": self.driver}
        self.agent.restart()

    def run(self) -> Snapshot:
        self.agent.period()
        return self.seen()

    def seen(self) -> Snapshot:
        return Client(self.placement).tree(ROOT).freeze()

    def edited(self, edit) -> None:
        client = Client(self.placement, strict=True)
        tree = client.tree(ROOT)
        edit(tree)
        client.update(tree)


AGENTS = {"COMPUTE_NODE", OWNER, "COMPUTE_IMAGE_TYPE_QCOW2", "COMPUTE_IMAGE_TYPE_RAW"}
"""Traits of the root that the agent sets itself."""


@pytest.fixture
def reported(tmp_path: Path) -> Reported:
    return Reported(tmp_path)


def test_strangers_stay(reported):
    def visit(tree):
        tree.add_traits("h1", "CUSTOM_STRANGE")
        tree.add_aggregates("h1", OTHER_AGG)
        tree.new_child("h1_agent", "h1")
        ceph = tree.new_root("ceph", str(uuid.uuid4()))
        tree.add_traits(ceph, "MISC_SHARES_VIA_AGGREGATE")
        tree.add_aggregates(ceph, OTHER_AGG)
        tree.add_traits("h1_numa0_pf0", "CUSTOM_STRANGE")

    reported.start(NESTED).run()
    reported.edited(visit)
    strange = reported.seen()
    assert reported.run().providers == strange.providers
    left = reported.script("nodes: {h1: }").run()
    assert sorted(provider.name for provider in left.walk()) == ["ceph", "h1", "h1_agent"]
    assert left.named("h1").traits - AGENTS == {"CUSTOM_STRANGE"}
    assert left.named("h1").aggregates == {OTHER_AGG}


def test_a_provider_with_a_strangers_child_stays_emptied(reported):
    reported.start(NESTED).run()
    reported.edited(lambda tree: tree.new_child("theirs", "h1_numa0_pf0"))
    left = reported.script("nodes: {h1: }").run()
    kept = left.named("h1_numa0_pf0")
    assert (kept.inventory, kept.traits) == ({}, frozenset())
    names = ["h1", "h1_numa0", "h1_numa0_pf0", "theirs"]
    assert sorted(provider.name for provider in left.walk()) == names


@pytest.mark.parametrize("restarted", [False, True])
def test_traits_and_aggregates_that_a_script_dropped_are_taken_away(reported, restarted):
    text = f"nodes: {{h1: {{traits: [CUSTOM_A, CUSTOM_B], aggregates: [{AGG}]}}}}"
    reported.start(text).run()
    reported.script("nodes: {h1: {traits: [CUSTOM_B]}}")
    if restarted:
        reported.restart()
    left = reported.run().named("h1")
    assert left.traits - AGENTS == {"CUSTOM_B"}
    assert left.aggregates == set()


def test_a_removal_that_placement_never_saw_is_asked_for_again(reported):
    reported.start("nodes: {h1: {traits: [CUSTOM_A]}}").run()
    reported.placement.fail_next("PUT", f"/resource_providers/{ROOT}/traits", Unreachable("away"))
    assert "CUSTOM_A" in reported.script("nodes: {h1: }").run().named("h1").traits
    assert reported.run().named("h1").traits == AGENTS


def test_a_trait_that_a_stranger_sets_after_its_removal_stays(reported):
    reported.start("nodes: {h1: {traits: [CUSTOM_A]}}").run()
    reported.script("nodes: {h1: }").run()
    assert reported.run().named("h1").traits == AGENTS
    reported.edited(lambda tree: tree.add_traits("h1", "CUSTOM_A"))
    assert reported.run().named("h1").traits - AGENTS == {"CUSTOM_A"}


def test_a_provider_of_this_name_is_taken_over_and_never_removed(bench):
    theirs = str(uuid.uuid4())
    bench.stranger(lambda tree: tree.new_child("h1_pf0", "h1", theirs))
    bench.start("nodes: {h1: {children: {pf0: {inventory: {SRIOV_NET_VF: 4}}}}}")
    assert bench.period().data("h1_pf0").uuid == theirs
    bench.script("nodes: {h1: }").period()
    assert "h1_pf0" in bench.names()


OWN_UUID = "22222222-2222-4222-8222-222222222222"
FLEET = f"""
nodes:
  c{{n}}:
    count: 2
    aggregates: [{AGG}]
    children: {{dev: }}
    sharing:
      ceph: {{name: ceph, inventory: {{DISK_GB: 9}}, aggregates: [{AGG}]}}
      local: {{aggregates: [{AGG}]}}
"""


def test_a_sharing_provider_with_a_name_of_its_own_is_made_by_the_first_node_alone(bench):
    bench.start(FLEET)
    assert bench.period("c0").exists("ceph")
    assert not bench.period("c1").exists("ceph")


def test_a_shared_provider_that_is_found_is_kept_up_to_date_and_never_removed(bench):
    made = bench.start(FLEET).period("c0").data("ceph")
    found = ProviderTree(bench.before("c1"))
    found.new_root(made.name, made.uuid)
    bench.snapshots["c1"] = found.freeze()
    assert bench.period("c1").data("ceph").inventory == {"DISK_GB": {"total": 9}}
    bench.script("nodes: {c0: , c1: }")
    for node in ("c0", "c1"):
        tree = bench.period(node)
        assert tree.exists("ceph") and not tree.exists(f"{node}_local")


def test_a_node_does_not_touch_what_another_one_shares(bench):
    bench.start(FLEET).period("c0")
    seen = ProviderTree(bench.before("c1"))
    theirs = bench.before("c0").named("c0_local")
    seen.new_root(theirs.name, theirs.uuid)
    bench.snapshots["c1"] = seen.freeze()
    assert bench.period("c1").exists("c0_local")


def test_nodes_and_their_uuids(bench):
    bench.start(f"nodes: {{a: {{uuid: {OWN_UUID}}}, b: }}")
    assert bench.driver.get_available_nodes() == ["a", "b"]
    assert bench.driver.get_nodenames_by_uuid() == {OWN_UUID: "a"}


def test_a_node_that_left_the_script_is_not_ready(bench):
    bench.start("nodes: {h1: }").period()
    bench.script("nodes: {h2: }")
    with pytest.raises(api.DriverNotReady, match="no node 'h1' any more"):
        bench.period()


# -- time


def test_each_state_holds_until_the_next_one_begins(reported):
    def names(tree: Snapshot) -> list[str]:
        return sorted(provider.name for provider in tree.walk())

    def totals(tree: Snapshot) -> dict[str, int]:
        return {name: record.total for name, record in tree.named("h1").inventory.items()}

    reported.start(
        """
        - nodes: {h1: {inventory: {VCPU: 8, DISK_GB: 5}, children: {a: {children: {b: }}}}}
        - after: 2
          nodes: {h1: {inventory: {VCPU: 16}, traits: [CUSTOM_B], children: {c: }}}
        - after: 3
          nodes: {h1: {inventory: {VCPU: 8}}}
        """
    )
    for _ in range(2):
        before = reported.run()
        assert totals(before) == {"VCPU": 8, "DISK_GB": 5}
        assert names(before) == ["h1", "h1_a", "h1_a_b"]
    during = reported.run()
    assert (totals(during), during.named("h1").traits - AGENTS) == ({"VCPU": 16}, {"CUSTOM_B"})
    assert names(during) == ["h1", "h1_c"]
    for _ in range(2):
        afterwards = reported.run()
        assert (totals(afterwards), afterwards.named("h1").traits) == ({"VCPU": 8}, AGENTS)


def test_each_node_counts_its_own_periods(bench):
    bench.start("- nodes: {h1: , h2: }\n- {after: 1, nodes: {h1: , h2: {traits: [CUSTOM_A]}}}")
    bench.periods(3)
    assert bench.period("h2").data("h2").traits == set()
    assert bench.period("h2").data("h2").traits == {"CUSTOM_A"}


def test_nodes_come_and_go(bench):
    bench.start("- nodes: {h1: }\n- {after: 1, nodes: {h1: , h2: }}\n- {after: 2, nodes: {h2: }}")
    listed = []
    for _ in range(3):
        listed.append(bench.driver.get_available_nodes())
        for node in listed[-1]:
            bench.period(node)
    assert listed == [["h1"], ["h1", "h2"], ["h2"]]


def test_a_failure_lasts_as_long_as_its_state_and_leaves_the_tree_alone(bench):
    bench.start(
        """
        - nodes: {h1: {inventory: {VCPU: 8}}}
        - {after: 1, not_ready: rebooting}
        - {after: 2, error: a bug}
        - {after: 3}
        """
    ).period()
    settled = bench.before("h1")
    with pytest.raises(api.DriverNotReady, match="^rebooting$"):
        bench.period()
    with pytest.raises(ScriptedError, match="^a bug$"):
        bench.period()
    bench.period()
    assert bench.before("h1") is settled


def test_a_sleep_delays_and_the_node_is_reported_all_the_same(bench):
    bench.start("nodes: {h1: {inventory: {VCPU: 8}}}\nsleep: 30")
    assert bench.period().has_inventory("h1")
    assert bench.slept == [30]


def test_a_bad_inventory_is_reported_as_it_is(bench):
    bench.start("nodes: {h1: {inventory: {VCPU: 8}, children: {a: {inventory: {VGPU: 0}}}}}")
    assert bench.period().data("h1_a").inventory == {"VGPU": {"total": 0}}


# -- the file


def test_a_bad_script_at_start_is_an_error_with_its_place(bench):
    with pytest.raises(ScriptError, match=r"demo\.yaml:2: nodes\.h1\.x: unknown key"):
        bench.start("nodes:\n  h1: {x: }")


def test_a_missing_script_at_start_is_an_error(bench):
    with pytest.raises(ScriptError, match=r"demo\.yaml: can't be read: .*No such file"):
        bench.start()


def test_a_script_that_is_no_text_is_an_error(bench):
    bench.path.write_bytes(b"nodes: {h\xff1: }")
    with pytest.raises(ScriptError, match=r"demo\.yaml: can't be read: .*utf-8"):
        bench.start()


def test_a_script_mended_after_a_bad_start_is_taken(bench):
    with pytest.raises(ScriptError):
        bench.start("nodes: [")
    with pytest.raises(ScriptError):
        bench.driver.get_available_nodes()
    bench.script("nodes: {h1: }")
    assert bench.driver.get_available_nodes() == ["h1"]
    assert bench.driver.degraded("host1") == {}


def test_a_bad_edit_keeps_the_last_good_script_and_is_told_once(bench, caplog):
    bench.start("nodes: {h1: {inventory: {VCPU: 8}}}").period()
    bench.script("nodes: {h1: {inventory: {VCPU: eight}}}").periods(3)
    assert bench.before("h1").named("h1").inventory["VCPU"].total == 8
    assert "demo.yaml:1: nodes.h1.inventory.VCPU" in bench.driver.degraded("host1")["script"]
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
    bench.script("nodes: {h1: {inventory: {VCPU: 9}}}").period()
    assert bench.driver.degraded("host1") == {}
    assert bench.before("h1").named("h1").inventory["VCPU"].total == 9


def test_a_script_that_vanishes_is_told_once_and_taken_when_it_returns(bench, caplog):
    bench.start("nodes: {h1: }").period()
    text = bench.path.read_text()
    bench.path.unlink()
    bench.periods(3)
    assert len([record for record in caplog.records if record.levelname == "WARNING"]) == 1
    assert "can't be read" in bench.driver.degraded("host1")["script"]
    bench.script(text).period()
    assert bench.driver.degraded("host1") == {}


def test_the_abilities_are_those_of_the_protocols(bench):
    bench.start("nodes: {h1: }")
    for ability in (Lifecycle, Configurable, Identified, Degradable):
        assert isinstance(bench.driver, ability)
