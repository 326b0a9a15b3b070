"""The benchmarks' quick mode: it works, counts right, and writes what the documentation shows."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from benchmarks.chart import Chart, figure
from benchmarks.host import ROOT, Host
from benchmarks.meter import Meter
from benchmarks.results import Case, medians
from benchmarks.scenarios import BETWEEN, COLD, COLD_BULK, CONFLICT, QUIET, SCENARIOS, Scenarios
from benchmarks.shapes import OPERATIONS, SHAPES, listed
from benchmarks.somebody import Somebody
from tests.servers.reference import reference_python

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def written(tmp_path_factory) -> Path:
    """Where one quick run has written."""
    out = tmp_path_factory.mktemp("costs")
    for module in ("compare", "memory"):
        subprocess.run(
            [sys.executable, "-m", f"benchmarks.{module}", "--quick", "--out", str(out)],
            cwd=REPOSITORY,
            check=True,
            timeout=300,
        )
    return out


def test_every_scenario_is_measured_and_quiet_periods_cost_one_call_or_none(written):
    (case,) = json.loads((written / "measured.json").read_text())["cases"]
    costs = case["ours"]
    assert list(costs) == list(SCENARIOS)
    calls = {name: cost["calls"] for name, cost in costs.items()}
    assert (calls[QUIET], calls[BETWEEN], calls[CONFLICT]) == (1, 0, 6)
    assert calls[COLD_BULK] < calls[COLD]
    assert all(cost["client_cpu_ms"] > 0 for cost in costs.values())
    assert all((cost["server_ms"] > 0) == (cost["calls"] > 0) for cost in costs.values())


def test_trees_of_all_shapes_are_measured(written):
    rows = json.loads((written / "trees.json").read_text())["ours"]
    assert {row["shape"] for row in rows} == set(SHAPES)
    assert all(set(row["milliseconds"]) == set(OPERATIONS) for row in rows)


def test_charts_are_well_formed_and_show_every_scenario(written):
    charts = sorted(path.name for path in written.glob("*.svg"))
    assert charts == [
        "bytes.svg", "calls.svg", "client_cpu.svg", "quiet-by-size.svg", "server.svg",
        "trees-flat.svg", "trees-nested.svg", "wall.svg",
    ]  # fmt: skip
    for name in charts:
        ElementTree.parse(written / name)
    shown = "".join(ElementTree.parse(written / "calls.svg").getroot().itertext())
    assert all(scenario in shown for scenario in SCENARIOS)


def test_tables_are_valid_restructured_text(written):
    core = pytest.importorskip("docutils.core")
    for name in ("summary.rst", "table.rst", "trees.rst"):
        text = (written / name).read_text()
        core.publish_doctree(text, settings_overrides={"halt_level": 2, "report_level": 2})


class DoesNothing:
    """A client that claims to have reported."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: None


def test_a_client_that_did_not_report_is_not_measured(placement, tmp_path):
    log = placement.log_of_requests
    scenarios = Scenarios(DoesNothing(), Host(3), 0, Somebody(placement.url), Meter(log))
    with pytest.raises(RuntimeError, match="all providers"):
        scenarios.run()


def test_medians_are_over_all_steps_of_all_runs():
    def cost(calls):
        return {"calls": calls, "bytes_sent": 1, "bytes_received": calls}

    runs = [{QUIET: [cost(1), cost(2)]}, {QUIET: [cost(30)]}]
    assert medians(runs) == {QUIET: {"calls": 2, "bytes_sent": 1, "bytes_received": 2, "bytes": 3}}


def test_a_ratio_is_of_the_reference_over_ours_and_bulk_starts_compare_with_plain_ones():
    case = Case(1, 0, {COLD_BULK: {"calls": 4}, QUIET: {"calls": 0}}, {COLD: {"calls": 12}})
    assert case.ratio(COLD_BULK, "calls") == 3
    assert case.ratio(QUIET, "calls") is None


def test_bars_are_longer_for_larger_values_and_absent_for_nothing():
    svg = Chart("t", "", ("a", "b"), [("x", (1000, 10)), ("y", (0, None))]).svg()
    bars = [
        float(rect.get("width"))
        for rect in ElementTree.fromstring(svg).iter("{http://www.w3.org/2000/svg}rect")
        if rect.get("height") == "13"
    ]
    assert len(bars) == 2 and bars[0] > bars[1] > 0


@pytest.mark.parametrize(
    ("value", "text"), [(0, "0"), (1234.6, "1,235"), (0.01234, "0.0123"), (7, "7")]
)
def test_figures_read_as_people_write_them(value, text):
    assert figure(value) == text


@pytest.mark.parametrize("size", [11, 131])
def test_shapes_have_the_size_and_depth_that_they_say(size):
    for shape, depth in (("flat", 1), ("nested", 2)):
        items = listed(shape, size)
        above = {item["uuid"]: item["parent_provider_uuid"] for item in items}
        assert len(above) == size
        depths = set()
        for uuid in above:
            steps = 0
            while above[uuid] is not None:
                uuid, steps = above[uuid], steps + 1
            depths.add(steps)
        assert max(depths) == depth


def test_the_host_moves_each_guests_gpu_to_one_child():
    held = {
        f"guest{n}": {"allocations": {ROOT: {"resources": {"VCPU": 1, "VGPU": 1}}}}
        for n in range(9)
    }

    class AnyTree(DoesNothing):
        def exists(self, name):
            return False

    Host(3, split=True).describe(AnyTree(), held, KeyError)
    for guest in held.values():
        root, gpu = sorted(
            guest["allocations"].values(), key=lambda part: "VGPU" in part["resources"]
        )
        assert (root["resources"], gpu["resources"]) == ({"VCPU": 1}, {"VGPU": 1})


def test_a_split_host_asks_for_allocations_first():
    class AnyTree(DoesNothing):
        def exists(self, name):
            return False

    with pytest.raises(KeyError):
        Host(3, split=True).describe(AnyTree(), None, KeyError)


@pytest.mark.faults
def test_the_footprint_has_a_row_for_each_way_of_running():
    command = [sys.executable, "-m", "benchmarks.footprint", "--settle", "0"]
    nova = reference_python()
    command += ["--reference", str(nova)] if nova else []
    ran = subprocess.run(
        command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=True
    )
    rows = ran.stdout.splitlines()[1:]
    assert len(rows) == 4 + bool(importlib.util.find_spec("libvirt")) + bool(nova)
    for row in rows:
        rss, pss, cpu = map(float, row.split()[-3:])
        assert rss >= pss > 0 and cpu > 0
