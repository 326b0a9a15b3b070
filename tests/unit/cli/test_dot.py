"""Trees in the DOT language: boxes, edges, and what shares with what."""

import pytest

from compute_registry.observed_placement import Usage
from computectl.drawing.dot import draw_dot
from reportclient.model import Inventory
from reportclient.snapshot import Snapshot
from tests.servers.process import completed
from tests.unit.cli.trees import numa_host, provider, uuid_of


def test_a_box_has_inventory_usage_and_traits() -> None:
    usage = Usage({uuid_of("host1_numa0"): {"VCPU": 30, "MEMORY_MB": 0}})
    lines = list(draw_dot(numa_host(pfs=2), usage))
    text = r"host1_numa0\nMEMORY_MB 131072, capacity 129024\l"
    text += r"VCPU 32, capacity 120, used 30\lHW_NUMA_ROOT\l"
    assert f'  "{uuid_of("host1_numa0")}" [label="{text}"]' in lines
    assert any(r"HW_CPU_X86_{AESNI,AVX,AVX2,SSE41,SSE42,VMX}\l" in line for line in lines)


def test_edges_lead_to_children_and_dashed_ones_to_who_is_shared_with() -> None:
    lines = list(draw_dot(numa_host(pfs=2), Usage()))
    assert f'  "{uuid_of("host1")}" -> "{uuid_of("host1_numa1")}"' in lines
    [dashed] = [line for line in lines if "dashed" in line]
    assert dashed.startswith(f'  "{uuid_of("nfs")}" -> "{uuid_of("host1")}" [style=dashed')


def test_without_traits_only_that_a_host_is_disabled_is_shown() -> None:
    off = provider("a", traits=["COMPUTE_NODE", "COMPUTE_STATUS_DISABLED"])
    text = "\n".join(draw_dot(Snapshot.build([off]), Usage(), terse=True))
    assert "COMPUTE_STATUS_DISABLED" in text and "COMPUTE_NODE" not in text


@pytest.mark.slow
@pytest.mark.needs("dot")
def test_graphviz_draws_any_name() -> None:
    named = provider('<b>"\\N\\"\nx\x1b[2J', inventory={"VCPU": Inventory(1)})
    dot = "\n".join(draw_dot(Snapshot.build([named]), Usage()))
    done = completed("dot", "-Tsvg", input=dot, check=True)
    assert r"&lt;b&gt;&quot;\N\&quot;\nx\x1b[2J" in done.stdout
