"""computectl driver check: whatever the driver does, there is a table and an exit code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from driverkit.check import BROKEN, KEPT, NOT_JUDGED, SKIPPED, Installed, check
from driverkit.rulebook import RULES
from tests.integration.agent_host import AgentHost
from tests.kit.installed import (
    EXITS_LATER,
    FOLDERS,
    FOLDERS_FIXTURES,
    HANGS_LATER,
    IN_A_PACKAGE,
    LISTS,
    REMOVES_NOTHING,
    SETS_ALL_TRAITS,
    TWO_SOURCES,
    install,
)
from tests.waiting import eventually


@pytest.fixture
def host(tmp_path: Path) -> AgentHost:
    return AgentHost(tmp_path, "http://placement.example")


def test_a_broken_rule_is_an_exit_code_of_1_and_a_row_that_says_how_to_mend_it(host, tmp_path):
    site = install(tmp_path / "site", "all-traits", SETS_ALL_TRAITS)
    said = host.bare_ctl("driver", "check", "all-traits", "-f", "json", PYTHONPATH=str(site))
    assert said.code == 1, said.err
    assert said.err == "computectl: driver all-traits: broken: foreign-traits\n"
    rows = {row["rule"]: row for row in said.json()}
    assert list(rows) == list(RULES)
    bad = rows["foreign-traits"]
    assert (bad["verdict"], bad["mend"]) == ("broken", RULES["foreign-traits"].mend)
    assert "trait COMPUTE_NODE of provider" in bad["seen"]
    assert rows["agree"] == {
        "rule": "agree",
        "verdict": "kept",
        "says": RULES["agree"].says,
        "seen": "",
        "mend": "",
    }


@pytest.mark.parametrize(
    ("source", "verdict", "seen"),
    [
        (LISTS, KEPT, ""),
        (TWO_SOURCES, KEPT, ""),
        (REMOVES_NOTHING, BROKEN, "with a device gone the tree has everything that it had before"),
    ],
)
def test_the_kit_leaves_a_device_out_of_a_list_and_says_what_the_skipped_rules_need(
    tmp_path, monkeypatch, source, verdict, seen
):
    monkeypatch.syspath_prepend(str(install(tmp_path / "site", "lists", source)))
    found = {it.rule.name: it for it in check(Installed("lists", "host1"))}
    assert (found["lost-device"].verdict, found["lost-device"].seen) == (verdict, seen)
    skipped = {name: it.seen for name, it in found.items() if it.verdict == SKIPPED}
    assert (
        "add the fixture lose_backend, a callable that breaks the back" in skipped["lost-backend"]
    )
    assert "--fixtures" in skipped["time"] and "reshape_case" in skipped["reshape-asked"]
    assert skipped.pop("closes").startswith("the driver opens nothing")
    assert all(text.startswith("to judge it, ") for text in skipped.values())


def test_a_trace_is_what_was_shown_what_was_said_and_what_became_of_it_and_why(host, tmp_path):
    site = str(install(tmp_path / "site", "lists", LISTS))
    words = ["driver", "check", "lists", "--trace"]
    said = host.bare_ctl(*words, "-f", "json", PYTHONPATH=site)
    first, second = ([r for r in said.json() if r["period"] == number] for number in (1, 2))
    outcomes = {(row["provider"].partition("_")[2], row["claim"]): row for row in first}
    assert outcomes["sda", "trait CUSTOM_FAST"]["outcome"] == "added"
    refused = outcomes["sda", "trait COMPUTE_STATUS_DISABLED"]
    assert refused["outcome"] == "not written"
    assert "only the agent sets this trait" in refused["why"]
    assert ("sdb", "inventory CUSTOM_LOCAL_DISK: total 1, reserved 1") in outcomes
    assert {row["outcome"] for row in second} == {"unchanged", "not written"}
    assert said.code == 1, "a condition is an error"
    drawn = host.bare_ctl(*words, PYTHONPATH=site).out
    listed = "Device('sdb', {'CUSTOM_LOCAL_DISK': 1}, parent='sda', healthy=False)"
    shown = drawn[drawn.index("period 2") :]
    assert drawn.count(listed) == 2 and "└─ " in shown[: shown.index("it said:")]
    assert "unhealthy: reserved completely" in drawn


def test_a_trace_has_the_calls_on_the_tree_as_the_driver_makes_them(host, tmp_path):
    site = str(install(tmp_path / "site", "all-traits", SETS_ALL_TRAITS))
    said = host.bare_ctl("driver", "check", "all-traits", "--trace", PYTHONPATH=site)
    assert said.code == 0, said.err
    (_, one, two) = said.out.split("it said:\n")
    calls = one.partition("\n\n")[0].split("\n")
    assert [call.strip().partition("(")[0] for call in calls] == [
        "update_inventory",
        "update_traits",
    ]
    assert "unchanged" in two and "added" not in two


def test_a_driver_that_ends_the_process_is_named_with_the_rule(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(install(tmp_path / "site", "exits-later", EXITS_LATER)))
    found = {it.rule.name: it for it in check(Installed("exits-later", "host1"))}
    assert list(found) == list(RULES)
    assert found["answers"].verdict == KEPT
    (broken,) = [it for it in found.values() if it.verdict == BROKEN]
    said = f"driver exits-later ended the process (exit code 7) while {broken.rule.name} was"
    assert broken.seen.startswith(said)
    assert found["steady-memory"].verdict == NOT_JUDGED
    assert found["steady-memory"].seen == broken.seen


def test_a_driver_that_hangs_is_told_with_its_rule_and_nothing_is_left_behind(host, tmp_path):
    site = install(tmp_path / "site", "hangs-later", HANGS_LATER)
    host.configure(driver="hangs-later", more="[compute]\ndriver_timeout = 15\n")
    said = host.ctl("driver", "check", "hangs-later", "-f", "json", PYTHONPATH=str(site))
    assert said.code == 1, said.err
    rows = {row["rule"]: row for row in said.json()}
    assert list(rows) == list(RULES)
    (hung,) = [row for row in rows.values() if "has not returned" in row["seen"]]
    assert hung["verdict"] == "broken"
    assert "update_provider_tree(host1) has not returned within 15 s" in hung["seen"]
    last = rows["steady-memory"]
    why = f"not judged: the driver hung in the rule {hung['rule']}"
    assert (last["verdict"], last["seen"]) == ("not judged", why)
    pids = [int(line) for line in (site / "started").read_text().split()]
    eventually(lambda: not any(runs(pid) for pid in pids))


def runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_rows_come_while_the_rest_is_judged_and_nobody_has_to_wait_for_that(tmp_path, monkeypatch):
    site = install(tmp_path / "site", "hangs-later", HANGS_LATER)
    monkeypatch.syspath_prepend(str(site))
    rows = check(Installed("hangs-later", "host1"))
    assert next(rows).rule.name == "answers"  # it hangs for a minute in what comes later
    rows.close()
    pids = [int(line) for line in (site / "started").read_text().split()]
    eventually(lambda: not any(runs(pid) for pid in pids))


def test_an_installed_driver_is_held_to_the_rules_that_need_an_authors_fixtures(host, tmp_path):
    site = install(tmp_path / "site", "disks", FOLDERS)
    (tmp_path / "test_mine.py").write_text(FOLDERS_FIXTURES)
    words = ["driver", "check", "disks", "--fixtures", str(tmp_path / "test_mine.py")]
    said = host.bare_ctl(*words, "-f", "json", PYTHONPATH=str(site))
    rows = {row["rule"]: row for row in said.json()}
    verdicts = {name: row["verdict"] for name, row in rows.items()}
    assert verdicts["lost-device"] == verdicts["time"] == verdicts["memory"] == "kept"
    assert verdicts["lost-backend"] == "broken", rows
    assert verdicts["reshape-asked"] == "skipped"


def test_files_that_options_name_are_looked_for_from_the_folder_that_it_is_called_in(
    tmp_path, monkeypatch
):
    """So it is for the agent, and the configuration of a new package names its host so."""
    monkeypatch.syspath_prepend(str(install(tmp_path / "site", "disks", FOLDERS)))
    (tmp_path / "mine.conf").write_text("[folders]\nroot = things\n")
    (tmp_path / "things" / "f0").mkdir(parents=True)
    conf = str(tmp_path / "mine.conf")
    rows = check(Installed("disks", "host1", [conf], directory=str(tmp_path)))
    first = next(rows)
    rows.close()
    assert (first.rule.name, first.verdict, first.seen) == ("answers", KEPT, "")


def test_an_authors_file_is_read_as_pytest_reads_it(tmp_path, monkeypatch):
    """In its package, with the fixtures of its module and of the files conftest.py."""
    monkeypatch.syspath_prepend(str(install(tmp_path / "site", "disks", FOLDERS)))
    for name, text in IN_A_PACKAGE.items():
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_text(text)
    file = str(tmp_path / "project" / "tests" / "test_mine.py")
    rows = check(Installed("disks", "host1", fixtures=file))
    first = next(rows)
    rows.close()
    assert (first.rule.name, first.verdict, first.seen) == ("answers", KEPT, "")


@pytest.mark.parametrize(
    ("text", "said"),
    [(None, "is no file"), ("import nowhere", "nowhere"), ("x = 1", "has no class that derives")],
)
def test_a_file_that_has_no_fixtures_is_told(host, tmp_path, text, said):
    file = tmp_path / "mine.py"
    if text is not None:
        file.write_text(text)
    told = host.bare_ctl("driver", "check", "fake", "--fixtures", str(file))
    assert told.code in (1, 2) and said in told.err, told.err


def test_a_driver_that_is_not_installed_is_a_line_with_those_that_are(host):
    said = host.bare_ctl("driver", "check", "libvrt")
    assert said.code == 2
    assert "no driver 'libvrt' is installed; is libvirt meant?" in said.err


def test_without_pytest_it_says_what_to_install(tmp_path):
    code = (
        "import sys; sys.modules['pytest'] = None\n"
        "from computectl.app import main; main(['driver', 'check', 'fake'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == (
        "computectl: pytest is not installed; the kit needs it: pip install 'compute-agent[kit]'\n"
    )
    assert done.stdout == ""
