"""computectl driver check: whatever the driver does, pytest's verdicts and an exit code."""

import re
from pathlib import Path

import pytest

from drivers import extras
from tests.integration.agent_host import AgentHost, Here, one_line
from tests.kit.installed import (
    EXITS_LATER,
    FOLDERS,
    HANGS_LATER,
    NUMBERS_A_SET,
    NUMBERS_ONCE,
    SETS_ALL_TRAITS,
    install,
)
from tests.waiting import eventually

BROKEN = """
from drivers.api import ComputeDriver

class Broken(ComputeDriver):
    def get_available_nodes(self):
        return [self.context.host]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        raise KeyError("no disk here")
"""


@pytest.fixture
def host(tmp_path: Path) -> AgentHost:
    return AgentHost.configured(tmp_path, "http://placement.example")


def test_a_broken_rule_is_shown_with_its_reason_and_how_to_mend_it(host, tmp_path):
    site = install(tmp_path / "site", "all-traits", SETS_ALL_TRAITS)
    said = host.ctl("driver", "check", "all-traits", PYTHONPATH=str(site))
    assert said.code == 1, said.err
    assert "trait CUSTOM_OF_ANOTHER_SERVICE: set -> nothing" in said.out
    assert "Why: they are what other services report" in said.out
    assert "Mend: derive the driver from DeviceDriver" in said.out
    assert said.out.count("FAILED installed.py::TestDriver::test_data_of_other_services_stays") == 1
    assert " 1 failed, " in said.out.splitlines()[-1]
    assert re.search(r"= driver all-traits, rules: 1 broken, \d+ kept, \d+ skipped =", said.out)
    assert "\ndata_of_other_services_stays: " in said.out


def test_rules_that_break_for_one_cause_are_named_together(host, tmp_path):
    host.configure(driver="broken")
    site = install(tmp_path / "site", "broken", BROKEN)
    said = host.ctl("driver", "check", "broken", PYTHONPATH=str(site))
    assert said.code == 1
    summary = said.out.partition("= driver broken, rules: ")[2].partition("short test summary")[0]
    causes = [line for line in summary.splitlines()[1:] if line.strip("= ")]
    assert len([line for line in causes if "no disk here" in line]) == 1, causes
    assert max(line.partition(": ")[0].count(", ") for line in causes) > 3


def test_a_good_driver_exits_with_0_and_skipped_rules_name_their_fixture(host):
    host.script('nodes: {"{host}": {inventory: {VCPU: 8}}}')
    said = host.ctl("driver", "check", "fake")
    assert said.code == 0, said.out
    for fixture in ("lose_backend", "lose_device", "make_big_driver", "reshape_case"):
        assert f"add the fixture {fixture}: " in said.out
    assert {each.name for each in host.directory.iterdir()} == {"agent.conf", "script.yaml"}


def test_numbers_that_depend_on_the_order_of_a_set_are_shown(host, tmp_path):
    site = install(tmp_path / "site", "numbers-a-set", NUMBERS_A_SET)
    said = host.ctl("driver", "check", "numbers-a-set", PYTHONPATH=str(site))
    assert said.code == 1, said.err
    assert "a new process, whose sets have another order" in said.out
    assert re.search(
        r"provider host1_card\d .*: inventory of VGPU: total \d+ -> total \d+", said.out
    )
    assert "Mend: sort what you number" in said.out
    assert "rules: 1 broken," in said.out


def test_numbers_that_the_driver_saves_keep_the_rules(host, tmp_path):
    site = install(tmp_path / "site", "numbers-once", NUMBERS_ONCE)
    said = host.ctl("driver", "check", "numbers-once", PYTHONPATH=str(site))
    assert said.code == 0, said.out


def test_a_driver_that_ends_the_process_is_named(host, tmp_path):
    site = install(tmp_path / "site", "exits-later", EXITS_LATER)
    said = host.ctl("driver", "check", "exits-later", PYTHONPATH=str(site))
    error = one_line(said, 1, out=True)
    assert "driver exits-later ended the check's process (exit code 0)" in error


def test_a_driver_that_hangs_ends_the_check_and_leaves_nothing_behind(host, tmp_path):
    site = install(tmp_path / "site", "hangs-later", HANGS_LATER)
    host.configure(driver="hangs-later", more="[compute]\ndriver_timeout = 3\n")
    said = host.ctl("driver", "check", "hangs-later", PYTHONPATH=str(site))
    assert said.code == 1, said.err
    assert "update_provider_tree(host1) has not returned within 3 s" in said.out
    assert "the driver hangs, the other rules were not checked" in said.out
    pids = [int(line) for line in (site / "started").read_text().split()]
    eventually(lambda: not any(runs(pid) for pid in pids))


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_relative_paths_of_options_start_where_the_command_is_run(host, tmp_path, monkeypatch):
    """So it is for the agent, and the configuration of a new package names its host so."""
    site = install(tmp_path / "site", "disks", FOLDERS)
    host.configure(more="[folders]\nroot = things\n")
    (tmp_path / "things" / "f0").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    said = host.ctl("driver", "check", "disks", PYTHONPATH=str(site))
    assert "test_nodes_have_resources_that_placement_takes PASSED" in said.out


def test_an_unknown_driver_and_a_missing_pytest_are_errors(tmp_path, monkeypatch):
    here = Here.configured(tmp_path, "http://placement.example")
    error = one_line(here.ctl("driver", "check", "fak"), 2)
    assert "no driver 'fak' is installed; is fake meant?" in error
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    error = one_line(here.ctl("driver", "check", "fake"), 2)
    assert "pytest is not installed; run: " in error
