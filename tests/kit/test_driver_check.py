"""computectl driver check: whatever the driver does, there is a table and an exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from driverkit.check import BROKEN, KEPT, NOT_JUDGED, Installed, check
from driverkit.rulebook import RULES
from tests.integration.agent_host import AgentHost
from tests.kit.installed import EXITS_LATER, SETS_ALL_TRAITS, install


@pytest.fixture
def host(tmp_path: Path) -> AgentHost:
    return AgentHost(tmp_path, "http://placement.example")


def test_a_broken_rule_is_an_exit_code_of_1_and_a_row_that_says_how_to_mend_it(host, tmp_path):
    site = install(tmp_path / "site", "all-traits", SETS_ALL_TRAITS)
    said = host.bare_ctl("driver", "check", "all-traits", "-f", "json", PYTHONPATH=str(site))
    assert said.code == 1, said.err
    assert said.err == "computectl: driver all-traits: broken: strangers-traits\n"
    rows = {row["rule"]: row for row in said.json()}
    assert list(rows) == list(RULES)
    bad = rows["strangers-traits"]
    assert (bad["verdict"], bad["mend"]) == ("broken", RULES["strangers-traits"].mend)
    assert "trait COMPUTE_NODE of provider" in bad["seen"]
    assert rows["agree"] == {
        "rule": "agree",
        "verdict": "kept",
        "says": RULES["agree"].says,
        "seen": "",
        "mend": "",
    }


def test_a_driver_that_ends_the_process_loses_only_what_was_not_judged_yet(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(install(tmp_path / "site", "exits-later", EXITS_LATER)))
    verdicts = check(Installed("exits-later", "host1"))
    found = {it.rule.name: it for it in verdicts}
    assert found["answers"].verdict == KEPT
    assert found["steady-memory"].verdict == NOT_JUDGED
    assert found["steady-memory"].seen == "the process ended with 7"
    assert not [it for it in verdicts if it.verdict == BROKEN]


def test_a_driver_that_is_not_installed_is_a_line_with_those_that_are(host):
    said = host.bare_ctl("driver", "check", "libvrt")
    assert said.code == 2
    assert "no driver 'libvrt' is installed; did you mean 'libvirt'?" in said.err


def test_without_pytest_it_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from agent.cli.app import main; main(['driver', 'check', 'fake'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "computectl: pytest is not installed; the kit needs it: pip install 'compute-agent[kit]'\n"
    )
    assert done.stdout == ""
