"""How trees look: what stands where, at any width, with any characters."""

import io
import re
import sys
from dataclasses import replace

import pytest

from compute_registry.observed_placement import Usage
from computectl.drawing.text_tree import draw_tree
from computectl.shared.screen import Screen, Terminal
from reportclient.model import Inventory
from reportclient.snapshot import Snapshot
from tests.unit.cli.trees import AGGREGATE, numa_host, provider, uuid_of

WIDE = Screen(width=100)


def draw(snapshot: Snapshot, root: str = "host1", screen: Screen = WIDE, **usage) -> list[str]:
    return draw_tree(snapshot, uuid_of(root), usage=Usage(**usage), screen=screen).splitlines()


def in_ascii(text: str) -> str:
    """Return what a terminal shows that has ASCII only."""
    shown = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Terminal.around(shown).write(text)
    shown.seek(0)
    return shown.read()


def test_a_small_tree_looks_like_this() -> None:
    usages = {uuid_of("host1_numa0"): {"VCPU": 30, "MEMORY_MB": 4096}}
    text = draw_tree(
        numa_host(pfs=2),
        uuid_of("host1"),
        usage=Usage(usages),
        screen=replace(WIDE, width=80, terse=True),
    )
    names = {uuid_of(name): f"<{name}>" for name in ("host1", "host1_numa0", "nfs")}
    shown = re.sub(
        r"[0-9a-f-]{36}",
        lambda m: names.get(m[0], "<uuid>" if m[0] != AGGREGATE else AGGREGATE),
        in_ascii(text),
    )
    assert shown == SMALL.strip("\n")


SMALL = """
                        total  reserved  ratio  capacity  used    free
host1  <host1>
|
|- host1_numa0  <host1_numa0>
|  |  MEMORY_MB        131072      2048      1    129024  4096  124928
|  |  VCPU                 32         2      4       120    30      90
|  |
|  `- host1_numa0_pf0  <uuid>
|        SRIOV_NET_VF       8         0      1         8     0       8
|
`- host1_numa1  <uuid>
   |  MEMORY_MB        131072      2048      1    129024     0  129024
   |  VCPU                 32         2      4       120     0     120
   |
   `- host1_numa1_pf0  <uuid>
         SRIOV_NET_VF       8         0      1         8     0       8

shared through aggregate 6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01

nfs  <nfs>
   DISK_GB              20480       512      1     19968     0   19968
"""


@pytest.mark.parametrize("width", [66, 80, 120, 200])
def test_no_line_but_amounts_is_wider_than_the_terminal(width: int) -> None:
    snapshot = numa_host("compute-with-a-long-name-17", pfs=8)
    lines = draw(snapshot, "compute-with-a-long-name-17", replace(WIDE, width=width))
    amounts = re.compile(r"\d+ +\d+ +[\d.]+ +\d+$")
    assert [line for line in lines if len(line) > width and not amounts.search(line)] == []


def test_uuids_stand_all_beside_or_all_below_the_names() -> None:
    long = Snapshot.build([provider("a"), provider("b" * 60, "a")])
    assert draw(long, "a", replace(WIDE, width=80))[0] == "a"
    assert draw(long, "a", replace(WIDE, width=120))[0] == f"a  {uuid_of('a')}"


def test_without_usages_nothing_is_said_of_use() -> None:
    lines = draw(numa_host())
    assert lines[0].split() == ["total", "reserved", "ratio", "capacity"]


def test_children_are_in_the_order_of_their_names() -> None:
    snapshot = Snapshot.build([provider("a"), provider("c", "a"), provider("b", "a")])
    names = [line.split()[-2] for line in draw(snapshot, "a") if line.strip("│")]
    assert names == ["a", "b", "c"]


def test_the_provider_that_was_asked_for_is_marked() -> None:
    marked = [line for line in draw(numa_host(), marked=uuid_of("host1_numa1")) if "◀" in line]
    assert [line.split()[1] for line in marked] == ["host1_numa1"]


def test_generations_and_consumers_are_beside_the_name() -> None:
    uuid = uuid_of("host1")
    lines = draw(numa_host(), generations={uuid: 7}, consumers={uuid: 1})
    assert lines[1] == f"host1  {uuid}  generation 7  1 consumer"


def test_other_roots_are_not_drawn() -> None:
    snapshot = Snapshot.build([provider("a", aggregates=[AGGREGATE]), provider("b")])
    assert not any(line.startswith("b") for line in draw(snapshot, "a"))


def test_a_terse_drawing_has_no_trait_but_that_of_a_disabled_host() -> None:
    traits = ["HW_NUMA_ROOT", "COMPUTE_STATUS_DISABLED"]
    snapshot = Snapshot.build([provider("a", traits=traits, aggregates=[AGGREGATE])])
    lines = draw(snapshot, "a", replace(WIDE, terse=True))
    assert [line.strip() for line in lines[1:]] == ["COMPUTE_STATUS_DISABLED"]


def test_ascii_is_enough() -> None:
    text = in_ascii("\n".join(draw(numa_host(), marked=uuid_of("nfs"))))
    assert "\\" not in text and "  <--" in text


def test_colour_is_for_what_is_full_or_disabled() -> None:
    lines = draw(disabled_and_full(), screen=replace(WIDE, colour=True), usages=FULL)
    assert [line for line in lines if "\033[31m" in line] == [
        "   \033[31mCOMPUTE_STATUS_DISABLED\033[0m  COMPUTE_NODE"
    ]
    [full] = [line for line in lines if "\033[33m" in line]
    assert full.strip().startswith("VCPU")


def test_colour_changes_no_column() -> None:
    bare = draw(disabled_and_full(), usages=FULL)
    painted = draw(disabled_and_full(), screen=replace(WIDE, colour=True), usages=FULL)
    assert [re.sub(r"\033\[\d+m", "", line) for line in painted] == bare


FULL = {uuid_of("host1"): {"VCPU": 91, "DISK_GB": 90}}


def disabled_and_full() -> Snapshot:
    amounts = {"VCPU": Inventory(100), "DISK_GB": Inventory(100)}
    traits = ["COMPUTE_STATUS_DISABLED", "COMPUTE_NODE"]
    return Snapshot.build([provider("host1", inventory=amounts, traits=traits)])


def test_a_tree_deeper_than_pythons_stack_is_drawn() -> None:
    depth = sys.getrecursionlimit() + 100
    chain = [provider("p0"), *(provider(f"p{n}", f"p{n - 1}") for n in range(1, depth))]
    lines = draw(Snapshot.build(chain), "p0", replace(WIDE, width=10**6))
    assert sum(" p" in line for line in lines) == depth - 1


@pytest.mark.parametrize(
    ("record", "whole"),
    [
        (Inventory(8), 8),
        (Inventory(8, 2, allocation_ratio=4.0), 24),
        (Inventory(3, 0, allocation_ratio=1.5), 4),
        (Inventory(8, 8), 0),
    ],
)
def test_capacity_is_what_can_be_allocated(record: Inventory, whole: int) -> None:
    assert record.capacity == whole
