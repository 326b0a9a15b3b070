"""What gets into the log, and how often."""

import logging
import re
from pathlib import Path

import pytest

from agent.reporting.condition import RETRY_STEP
from agent.reporting.condition_log import ConditionLog
from agent.reporting.reports import Report
from reportclient.errors import InUse
from tests.reports import report_with

STAYS = "; what it reported before stays in Placement"


def logged(caplog: pytest.LogCaptureFixture, *reports: Report) -> list[str]:
    """The lines for these reports of one node, period by period."""
    caplog.set_level(logging.INFO)
    log = ConditionLog()
    for report in reports:
        log.log_reports([report])
    return caplog.messages


def told(caplog: pytest.LogCaptureFixture, *texts: str | None) -> list[str]:
    """The same, while a node's trouble reads so."""
    errors = ({} if text is None else {"fake": RuntimeError(text)} for text in texts)
    return logged(caplog, *(report_with(driver_errors=each) for each in errors))


def test_a_trouble_is_logged_when_it_comes_changes_and_goes(caplog) -> None:
    assert told(caplog, None, "no disk", "no disk", "no memory", "no memory", None, None) == [
        f"Node host1: driver fake: no disk{STAYS}",
        f"Node host1: driver fake: no memory{STAYS}",
        "Node host1: resolved: driver fake: no memory",
    ]


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("refused (request req-1-2)", "refused (request req-3-4)"),
        ("no answer for 3 s", "no answer for 63 s"),
        ("no answer to PUT /a/b?c=d: refused", "no answer to GET /a: refused"),
        ("no answer in 2.5 seconds", "no answer in 7.25 seconds"),
        (
            "devices has not returned within 60 s ([compute] driver_timeout)",
            "devices was not called: still waiting for an earlier call (devices has not returned"
            " for 120 s)",
        ),
    ],
)
def test_what_differs_each_time_is_no_change(caplog, first: str, second: str) -> None:
    assert len(told(caplog, first, second, first)) == 1


def test_a_traceback_is_logged_for_debug_when_the_error_changes(caplog) -> None:
    caplog.set_level(logging.DEBUG)
    log = ConditionLog()
    for text in ("no disk", "no disk", "no memory"):
        log.log_reports([report_with(driver_errors={"fake": RuntimeError(text)})])
    traced = [(it.levelname, str(it.exc_info[1])) for it in caplog.records if it.exc_info]
    assert traced == [("DEBUG", "no disk"), ("DEBUG", "no memory")]


def test_another_trouble_or_amount_is_a_change(caplog) -> None:
    assert len(told(caplog, "no disk", "no memory", "no disk")) == 3
    caplog.clear()
    assert len(told(caplog, "3 disks are gone", "4 disks are gone")) == 2


def test_a_period_that_broke_off_ends_no_other_trouble(caplog: pytest.LogCaptureFixture) -> None:
    """With Placement away, nobody knows whether a name is still taken."""
    taken, away = {"u1": RuntimeError("name taken")}, RuntimeError("no answer")
    causes = [(taken, None), ({}, away), ({}, away), (taken, None), ({}, None)]
    reports = (report_with(failed=failed, error=error) for failed, error in causes)
    assert logged(caplog, *reports) == [
        f"Node host1: u1: name taken; {RETRY_STEP}",
        f"Node host1: no answer; {RETRY_STEP}",
        "Node host1: resolved: no answer",
        "Node host1: resolved: u1: name taken",
    ]


def test_what_a_broken_off_period_finds_besides_is_told(caplog: pytest.LogCaptureFixture) -> None:
    away = RuntimeError("no answer")
    errors = ({"fake": RuntimeError(text)} for text in ("no disk", "no memory"))
    told = logged(caplog, *(report_with("h", driver_errors=each, error=away) for each in errors))
    assert told == [f"Node h: driver fake: no disk{STAYS}", f"Node h: no answer; {RETRY_STEP}"] + [
        f"Node h: driver fake: no memory{STAYS}"
    ]


def test_what_a_driver_has_to_do_with_is_logged_under_drivers(caplog) -> None:
    failed = report_with(
        driver_errors={"fake": RuntimeError("no disk")},
        ill={"fake pools": "no answer"},
        failed={"u1": RuntimeError("refused")},
    )
    logged(caplog, failed, Report("host1"))
    loggers = {record.getMessage().partition(";")[0]: record.name for record in caplog.records}
    assert loggers == {
        f"Node host1: {resolved}{text}": f"compute_agent.{subject}"
        for resolved in ("", "resolved: ")
        for text, subject in [
            ("driver fake: no disk", "drivers"),
            ("fake pools: no answer", "drivers"),
            ("u1: refused", "placement"),
        ]
    }


def test_what_ends_by_itself_is_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    draining = report_with(draining={"u1": InUse("in use")})
    logged(caplog, draining, report_with(failed={"u1": InUse("in use")}))
    assert [record.levelname for record in caplog.records] == ["INFO", "WARNING"]
    assert "allocation unset --provider u1" in caplog.text


REPOSITORY = Path(__file__).resolve().parents[2]


def test_each_logger_is_a_subject_that_the_page_has() -> None:
    named = {
        name
        for top in ("agent", "drivers", "driverkit/scripted")
        for path in (REPOSITORY / top).rglob("*.py")
        for name in re.findall(r"^\w+ = logging\.getLogger\((.*)\)$", path.read_text(), re.M)
    }
    page = (REPOSITORY / "docs" / "operate.rst").read_text()
    subjects = re.findall(r"^``(compute_agent\.\w+)``$", page, re.M)
    assert named == {f'"{subject}"' for subject in subjects}
