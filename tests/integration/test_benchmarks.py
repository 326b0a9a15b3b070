"""The benchmarks' quick mode: it works, counts right, and writes what the documentation shows."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.host import Host
from benchmarks.meter import Meter
from benchmarks.scenarios import BETWEEN, COLD, COLD_BULK, CONFLICT, QUIET, SCENARIOS, Scenarios
from benchmarks.shapes import OPERATIONS, SHAPES
from benchmarks.somebody import Somebody
from tests.servers.process import completed
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


def test_each_scenario_is_measured_and_a_quiet_period_is_one_call(written):
    (case,) = json.loads((written / "measured.json").read_text())["cases"]
    costs = case["ours"]
    assert list(costs) == list(SCENARIOS)
    calls = {name: cost["calls"] for name, cost in costs.items()}
    assert (calls[QUIET], calls[BETWEEN], calls[CONFLICT]) == (1, 0, 5)
    assert calls[COLD_BULK] < calls[COLD]
    assert all(cost["client_cpu_ms"] > 0 for cost in costs.values())
    assert all((cost["server_ms"] > 0) == (cost["calls"] > 0) for cost in costs.values())


def test_trees_of_all_shapes_are_measured(written):
    rows = json.loads((written / "trees.json").read_text())["ours"]
    assert {row["shape"] for row in rows} == set(SHAPES)
    assert all(set(row["milliseconds"]) == set(OPERATIONS) for row in rows)


class DoesNothing:
    """A client that claims to have reported."""

    def __getattr__(self, name):
        return lambda *args, **kwargs: None


def test_a_client_that_did_not_report_is_not_measured(placement, tmp_path):
    log = placement.log_of_requests
    scenarios = Scenarios(DoesNothing(), Host(3), 0, Somebody(placement.url), Meter(log))
    with pytest.raises(RuntimeError, match="all providers"):
        scenarios.run()


@pytest.mark.faults
def test_the_footprint_has_a_row_for_each_way_of_running():
    command = [sys.executable, "-m", "benchmarks.footprint", "--settle", "0"]
    nova = reference_python()
    command += ["--reference", str(nova)] if nova else []
    ran = completed(*command, cwd=REPOSITORY, timeout=600, check=True)
    rows = ran.stdout.splitlines()[1:]
    assert len(rows) == 4 + bool(importlib.util.find_spec("libvirt")) + bool(nova)
    for row in rows:
        rss, pss, cpu = map(float, row.split()[-3:])
        assert rss >= pss > 0 and cpu > 0
