"""``computectl tree --all``, its graph and its calls, on a real Placement."""

import re
import time

import pytest

from compute_registry.observed_placement import read_tree
from compute_registry.page.trees import PlacementReads
from reportclient.apply import apply
from reportclient.http import PlacementAPI, token_adapter
from reportclient.plan import diff
from reportclient.reader import refresh
from reportclient.root import Counting
from reportclient.snapshot import EMPTY
from reportclient.view import View
from tests.integration.agent_host import Here, one_line
from tests.integration.fleet import CEPH, fleet_with_commands, host
from tests.servers.placement import RealPlacement
from tests.unit.cli.trees import numa_host, uuid_of


@pytest.fixture(scope="module")
def ctl(placement_server: RealPlacement, tmp_path_factory: pytest.TempPathFactory) -> Here:
    return fleet_with_commands(placement_server, tmp_path_factory.mktemp("ctl"))


def calls_of(out: str) -> int:
    [found] = re.findall(r"(\d+) calls?$", out.splitlines()[0])
    return int(found)


def requests_since(ctl: Here, placement: RealPlacement, *args: str) -> tuple[str, str, int]:
    mark = placement.mark()
    said = ctl.ctl(*args)
    assert said.code == 0, said.err
    return said.out, said.err, len(placement.since(mark))


def test_trees_are_drawn_with_what_they_share(ctl: Here) -> None:
    said = ctl.ctl("tree", "--all", "host00[0-3]*", "--no-traits")
    assert (said.code, said.err) == (0, "")
    lines = said.out.splitlines()
    assert lines[0].startswith("5 trees, 13 providers, ")
    heads = [line.split()[0] for line in lines if re.match(r"(host|ceph)", line)]
    assert heads == [host(0), host(1), host(2), host(3), CEPH]
    assert lines[-3].startswith("aggregate 7a0e6a3c-")
    assert lines[-2:] == [f"   shared: {CEPH}", f"   with: {host(0)} … {host(3)} (4)"]


def test_the_calls_are_counted_and_few(ctl: Here, placement_server: RealPlacement) -> None:
    out, err, sent = requests_since(ctl, placement_server, "tree", "--all", "--limit", "10")
    assert calls_of(out) == sent
    assert sent < 10 * (3 * 3 + 3) + 10
    assert err == (
        "computectl: 191 of 201 trees are left out by --limit 10; "
        "a higher limit or a pattern of names shows others\n"
    )


def test_trees_that_take_too_many_calls_are_left_out_and_counted(ctl: Here) -> None:
    said = ctl.ctl("tree", "--all", "host00*", "--most-calls", "50")
    assert calls_of(said.out) <= 50
    assert re.fullmatch(
        r"computectl: \d trees would take too many calls; --most-calls allows more\n", said.err
    )


def test_a_tree_that_takes_too_many_calls_alone_is_drawn(ctl: Here) -> None:
    assert ctl.ctl("tree", "--all", host(3), "--most-calls", "1").out.count(f"\n{host(3)} ") == 1


def test_rows_are_those_of_all_trees_each_once(ctl: Here) -> None:
    rows = ctl.ctl("tree", "--all", "host00[01]*", "-f", "json").json()
    names = [(row["provider"], row["resource_class"]) for row in rows]
    assert len(names) == len(set(names)) == 2 * 4 + 1
    assert (CEPH, "DISK_GB") in names


def test_a_pattern_without_a_tree_is_named(ctl: Here) -> None:
    assert "rack7-*" in one_line(ctl.ctl("tree", "--all", "rack7-*"), 2)


@pytest.mark.parametrize("words", [["--limit", "3"], ["--most-calls", "3"]])
def test_bounds_without_all_are_refused(ctl: Here, words: list[str]) -> None:
    assert "add --all" in one_line(ctl.ctl("tree", *words), 2)


def test_a_bound_has_to_be_positive(ctl: Here) -> None:
    said = ctl.ctl("tree", "--all", "--limit", "0")
    assert (said.code, "--limit" in said.err) == (2, True)


def test_a_graph_of_all_trees_says_on_stderr_what_it_leaves_out(ctl: Here) -> None:
    said = ctl.ctl("tree", "--all", "host0*", "--limit", "30", "--dot")
    assert said.out.startswith("digraph providers {\n") and said.out.endswith("}\n")
    assert said.out.count("[label=") == 91 and said.out.count("[style=dashed") == 30
    first, second = said.err.splitlines()
    assert first.startswith("computectl: 31 trees, 91 providers, ")
    assert "70 of 100 trees are left out" in second


def test_a_graph_has_no_other_format(ctl: Here) -> None:
    assert "--dot and -f" in one_line(ctl.ctl("tree", host(1), "--dot", "-f", "json"), 2)


# -- the calls of one large tree


@pytest.fixture
def large(placement: RealPlacement) -> PlacementAPI:
    api = PlacementAPI(token_adapter(placement.url, "admin"))
    outcome = apply(diff(EMPTY, numa_host(pfs=40)), View(), api)
    assert outcome.stopped_by is None and not outcome.failed
    placement.stranger.put_allocation(
        {uuid_of("host1_numa0"): {"VCPU": 4}, uuid_of("host1_numa1_pf3"): {"SRIOV_NET_VF": 2}}
    )
    return api


def test_the_page_knows_since_when_a_provider_drains(
    large: PlacementAPI, placement: RealPlacement
) -> None:
    began = int(time.time())
    full = {"SRIOV_NET_VF": {"total": 8, "reserved": 8}}
    placement.stranger.set_inventory(uuid_of("host1_numa1_pf3"), full)
    (drain,) = PlacementReads(large).tree(uuid_of("host1")).drains
    assert drain.since is not None and drain.since >= began


def counted(api: PlacementAPI, **how: View) -> tuple[int, object]:
    meter = Counting(api)
    seen = read_tree(uuid_of("host1"), meter, **how)
    assert seen is not None
    used = {
        (uuid, name): amount
        for uuid, amounts in (seen.usage.usages or {}).items()
        for name, amount in amounts.items()
        if amount
    }
    consumers = {uuid: count for uuid, count in seen.usage.consumers.items() if count}
    providers = dict(seen.snapshot.providers)
    return meter.calls, (providers, used, consumers, dict(seen.usage.generations))


def test_a_large_tree_takes_two_calls_a_provider_and_says_the_same(
    large: PlacementAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls, answer = counted(large)
    monkeypatch.setattr("compute_registry.observed_placement.SUMMARY_FROM", 1000)
    plain_calls, plain = counted(large)
    assert answer == plain
    assert plain_calls > 4 * 43
    assert calls <= 2 * 43 + 10


def test_a_full_host_is_read_one_by_one_and_says_the_same(placement, large: PlacementAPI) -> None:
    _, before = counted(large)
    stranger = placement.stranger
    for cell in ("host1_numa0", "host1_numa1"):
        left = 120 - (4 if cell == "host1_numa0" else 0)
        stranger.put_allocation({uuid_of(cell): {"VCPU": left}})
    _, (providers, used, consumers, _) = counted(large)  # type: ignore[misc]
    assert providers == before[0]  # type: ignore[index]
    assert used[uuid_of("host1_numa0"), "VCPU"] == 120
    assert consumers[uuid_of("host1_numa0")] == 2


def test_what_the_agent_has_read_is_not_read_again(placement, large: PlacementAPI) -> None:
    view = refresh(View(), uuid_of("host1"), large)
    _, fresh = counted(large)
    calls, answer = counted(large, remembered=view)
    assert answer == fresh
    assert calls <= 8
    placement.stranger.add_trait(uuid_of("host1_numa0"), "HW_CPU_X86_VMX")
    again, answer = counted(large, remembered=view)
    assert answer == counted(large)[1] != fresh
    assert again <= calls + 3
