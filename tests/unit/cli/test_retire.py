"""``computectl retire``: a host's providers leave Placement whatever happens in between."""

from dataclasses import replace
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.state.saved_root import SavedRoot
from computectl.retire import Retired, planned_of, released, removed
from reportclient.errors import ServerFault, Unreachable
from reportclient.http import API
from reportclient.provider_tree import ProviderTree
from tests.agents import ROOT, Agent, Small
from tests.stranger import FakePlacement

AT_ONCE = {"verify_every": 0.0, "remove_child_after": 0.0}
"""As with --nova-stopped."""
NEVER = {"remove_child_after": None}


def two_disks(tree: ProviderTree) -> None:
    for name in ("disk1", "disk2"):
        if not tree.exists(name):
            tree.new_child(name, "host1")
        tree.update_inventory(name, {"CUSTOM_DISK": {"total": 1}})
    tree.update_traits("host1", {"CUSTOM_OURS"})


def everything(tree: ProviderTree) -> None:
    """The host's own inventory, a child with a child, and storage that it shares."""
    two_disks(tree)
    tree.update_inventory("host1", {"VCPU": {"total": 4}})
    for name, parent in (("part", "disk1"), ("nfs", None)):
        if not tree.exists(name):
            tree.new_child(name, parent) if parent else tree.new_root(name, NFS)
        tree.update_inventory(name, {"DISK_GB": {"total": 9}})
    tree.update_traits("nfs", {"MISC_SHARES_VIA_AGGREGATE"})
    for name in ("nfs", "host1"):
        tree.update_aggregates(name, {AGGREGATE})


NFS = "c0ffee00-0000-4000-8000-00000000000f"
AGGREGATE = "c0ffee00-0000-4000-8000-0000000000aa"


class Host:
    """A host that an agent has reported, and the command on it."""

    def __init__(self, state: Path, body: Any, *, attached: bool = False, **rules: Any) -> None:
        self.placement = FakePlacement()
        if attached:
            self.placement.stranger.create_provider("host1", ROOT)
        self.agent = Agent(self.placement, Small(body), state=state, attached=attached, **rules)
        self.agent.settle()
        self.rules = self.agent.rules
        self.progress: list[str] = []
        self.session: Any = SimpleNamespace(
            settings=SimpleNamespace(host="host1", rules=self.rules),
            compute_id=lambda: ROOT,
            saved_root=lambda root, **how: SavedRoot.in_directory(state, root, **how),
        )

    def retire(self, api: API | None = None, roots: tuple[str, ...] = (ROOT,)) -> Retired:
        """What ``retire --yes`` does."""
        api = api or self.placement
        trackers = [released(self.session, root, api, self.rules) for root in roots]
        planned = planned_of(self.session, trackers, api)
        if planned.blocks():
            return replace(planned, confirmed=False)
        return removed(trackers, planned, self.progress.append)

    def names(self) -> set[str]:
        return {each.name for each in self.placement.store.providers.values()}


class Dying:
    """A process that is killed at its ``last`` call, before or after Placement has got it."""

    def __init__(self, api: API, last: int, *, answered: bool) -> None:
        self.api, self.left, self.answered = api, last, answered

    def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        if self.left == 0 and not self.answered:
            raise KeyboardInterrupt
        answer = self.api.request(method, path, **more)
        if self.left == 0:
            raise KeyboardInterrupt
        self.left -= 1
        return answer


@pytest.mark.parametrize("answered", [False, True])
@pytest.mark.parametrize(
    ("body", "rules", "left"),
    [(everything, {}, set()), (two_disks, {"attached": True, **AT_ONCE}, {"host1"})],
    ids=["own", "attached"],
)
def test_a_retirement_that_is_killed_at_any_call_is_finished_by_the_next(
    tmp_path: Path, body: Any, rules: dict[str, Any], left: set[str], answered: bool
) -> None:
    for last in count():
        state = tmp_path / str(last)
        state.mkdir()
        host = Host(state, body, **rules)
        try:
            host.retire(Dying(host.placement, last, answered=answered))
        except KeyboardInterrupt:
            result = host.retire()
            assert result.failed == []
            assert host.names() == left
            continue
        break
    assert last > 10
    assert host.names() == left
    if left:
        assert host.placement.store.providers[ROOT].traits == frozenset()


def test_a_child_without_a_wait_stays_below_its_root_and_is_emptied(tmp_path: Path) -> None:
    host = Host(tmp_path, two_disks, attached=True, **NEVER)
    result = host.retire()
    assert (result.failed, result.removed) == ([], frozenset())
    assert host.progress == [
        "2 providers stay below the root, emptied: stop nova-compute, then computectl retire "
        "--nova-stopped"
    ]
    assert not any(each.inventory for each in host.placement.store.providers.values())


def test_an_error_while_children_are_emptied_is_reported(tmp_path: Path) -> None:
    host = Host(tmp_path, two_disks, attached=True, **NEVER)
    for _ in range(5):
        host.placement.fail_next("PUT", "inventories", ServerFault("500 made up"))
    result = host.retire()
    assert "500 made up" in str(result.failed[0])
    assert host.progress == []


def test_a_placement_that_goes_away_is_not_waited_for_at_the_next_root(tmp_path: Path) -> None:
    host = Host(tmp_path, two_disks)
    host.placement.fail_next("DELETE", "", Unreachable("no answer"))
    other = "c0ffee00-0000-4000-8000-000000000002"
    host.placement.stranger.create_provider("host2", other)
    result = host.retire(roots=(ROOT, other))
    assert [str(each) for each in result.failed] == ["no answer"]
    assert "host2" in host.names()
    assert host.retire().failed == [], "the ledger was kept"


def test_a_guest_that_comes_meanwhile_keeps_its_provider_which_is_drained(tmp_path: Path) -> None:
    host = Host(tmp_path, two_disks)
    store = host.placement.store
    disk = next(uuid for uuid, each in store.providers.items() if each.name == "disk1")
    trackers = [released(host.session, ROOT, host.placement, host.rules)]
    planned = planned_of(host.session, trackers, host.placement)
    guest = host.placement.stranger.put_allocation({disk: {"CUSTOM_DISK": 1}})
    result = removed(trackers, planned, host.progress.append)
    assert any(guest in str(each) for each in result.failed)
    assert host.names() == {"host1", "disk1", "disk2"}
    assert store.providers[disk].inventory["CUSTOM_DISK"]["reserved"] == 1
    (block,) = host.retire().blocks()
    assert guest in str(block)
