"""Log lines: by oslo.log as Nova's operators know it; priorities for the journal; nothing forged."""

import io
import json
import logging
import os
import ssl
import subprocess
import sys
from pathlib import Path

import pytest
from amqp.exceptions import AccessRefused, RecoverableConnectionError

from agent.reporting import logs
from tests.servers.process import completed

pytestmark = pytest.mark.slow

INNER = logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s")


def lines(*, journal: bool, level: int, message: str) -> list[str]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(logs.Lines(INNER, journal=journal))
    handler.handle(logging.LogRecord("agent.x", level, "", 0, message, None, None))
    return stream.getvalue().splitlines()


@pytest.mark.parametrize(
    ("level", "mark"), [("DEBUG", 7), ("INFO", 6), ("WARNING", 4), ("ERROR", 3), ("CRITICAL", 2)]
)
def test_the_journal_gets_a_priority(level: str, mark: int) -> None:
    (line,) = lines(journal=True, level=getattr(logging, level), message="as it is")
    assert line.startswith(f"<{mark}>20")
    assert line.endswith(f" {level} agent.x as it is")


@pytest.mark.parametrize("journal", [False, True])
def test_a_name_from_outside_forges_no_line(journal: bool) -> None:
    message = "root host\n<2>CRITICAL agent.x all is lost\x1b[2J\rcafé"
    (line,) = lines(journal=journal, level=logging.INFO, message=message)
    assert line.endswith(r"root host\n<2>CRITICAL agent.x all is lost\x1b[2J\rcafé")


PROGRAM = """
import logging, os, sys
from oslo_config import cfg
from agent.reporting import logs
found = os.fstat(2)
os.environ["JOURNAL_STREAM"] = os.environ.get("STREAM") or f"{found.st_dev}:{found.st_ino}"
conf = cfg.ConfigOpts()
logs.register(conf)
conf(sys.argv[1:], project="x")
logs.start(conf, "x")
logging.getLogger("agent.x").warning("well")
logging.getLogger("kombu").info("for its authors")
logging.getLogger("agent.y").info("not shown")
logging.getLogger("agent.long").warning("long " + 50_000 * "x" + " end")
try:
    raise ValueError("bad\\n2026-01-01 INFO agent.x forged\\x1b")
except ValueError:
    logging.getLogger("agent.x").exception("failed")
logging.getLogger("agent.x").debug("failed", exc_info=OSError("only for debug"))
logs.complain("prog: one\\n  two\\x1b")
"""


def said(*options: str, stream: str = "1:2") -> list[str]:
    done = completed(
        sys.executable, "-c", PROGRAM, *options, check=True, env={**os.environ, "STREAM": stream}
    )
    assert not done.stdout, "of the commands"
    return done.stderr.splitlines()


def test_it_is_the_journal_only_where_standard_error_is_its_stream() -> None:
    """A shell started by a service inherits the variable and writes elsewhere."""
    first, *rest = said(stream="")
    assert first == "<4>WARNING agent.x well", "the journal has the time"
    assert rest[-2:] == ["<3>prog: one", r"<3>  two\x1b"]
    first, *rest = said(stream="1:2")
    assert first.startswith("20") and first.endswith(" WARNING agent.x [-] well")
    assert rest[-2:] == ["prog: one", r"  two\x1b"]


def test_the_middle_of_a_very_long_record_is_left_out() -> None:
    text = "\n".join(said())
    assert " long xxx" in text and "x end" in text and "characters left out" in text
    assert len(text) < 25_000


@pytest.mark.parametrize("stream", ["", "1:2"])
def test_each_line_of_a_traceback_says_whose_it_is(stream: str) -> None:
    found = said(stream=stream)
    (forged,) = (line for line in found if "forged" in line)
    assert forged.endswith(r"2026-01-01 INFO agent.x forged\x1b")
    assert forged.startswith("<3>  2026") if not stream else " ERROR agent.x 2026" in forged
    assert any(
        line.endswith(("ERROR agent.x failed", "ERROR agent.x [-] failed")) for line in found
    )


def test_a_traceback_has_the_level_of_its_line() -> None:
    (line,) = (line for line in said("--debug") if "only for debug" in line)
    assert " DEBUG agent.x " in line and line.endswith("OSError: only for debug")


def test_a_format_that_asks_for_the_error_gets_it_in_one_line(tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    file.write_text("[DEFAULT]\nlogging_default_format_string = %(message)s (%(error_summary)s)\n")
    assert r"failed (ValueError: bad\n2026-01-01 INFO agent.x forged\x1b)" in said(
        "--config-file", str(file)
    )


def test_levels_by_module_and_formats_are_oslo_logs(tmp_path: Path) -> None:
    file = tmp_path / "x.conf"
    file.write_text(
        "[DEFAULT]\ndefault_log_levels = agent.x=CRITICAL, kombu=INFO\n"
        "logging_default_format_string = %(name)s: %(message)s\n"
    )
    first, *rest = said("--config-file", str(file))
    assert (first, rest[0]) == ("kombu: for its authors", "agent.y: not shown")
    assert "failed" not in "".join(rest)


def test_json_has_a_line_for_each_message() -> None:
    first, *_, last = [json.loads(line) for line in said("--use-json")[:-2]]
    assert (first["levelname"], first["name"], first["message"]) == ("WARNING", "agent.x", "well")
    assert last["traceback"][-1] == "" or "forged" in "".join(last["traceback"])


def test_a_log_file_gets_what_standard_error_does_not(tmp_path: Path) -> None:
    assert said("--log-dir", str(tmp_path), "--log-file", "x.log") == ["prog: one", r"  two\x1b"]
    assert (tmp_path / "x.log").read_text().splitlines()[0].endswith("WARNING agent.x [-] well")


def test_the_broker_is_complained_of_seldom_and_each_reason_is_given() -> None:
    now = [100.0]
    seldom = logs.RepeatFilter(60.0, lambda: now[0])
    said = "[%(connection_id)s] AMQP server on %(hostname)s is unreachable: %(err_str)s"

    def passes(why: Exception, host: str = "rabbit1", *, message: str = said) -> bool:
        now[0] += 1
        args = {"connection_id": now[0], "hostname": host, "err_str": why}
        record = logging.LogRecord("x", logging.ERROR, "", 0, message, (args,), None)
        return bool(seldom.filter(record))

    closed, refused = ConnectionResetError(104, "reset"), ConnectionRefusedError(111, "refused")
    expired = ssl.SSLCertVerificationError("certificate has expired")
    assert [passes(closed), passes(refused), passes(RecoverableConnectionError())] == [
        True, False, False,
    ]  # fmt: skip
    assert [passes(AccessRefused("no")), passes(AccessRefused("no"))] == [True, False]
    now[0] += 60
    assert [passes(closed), passes(closed), passes(expired)] == [True, False, True]
    assert [passes(closed), passes(expired), passes(closed, "rabbit2")] == [False, False, True]
    assert [passes(closed, message="gave up"), passes(closed, message="gave up")] == [True, False]
    now[0] += 60
    assert [passes(closed), passes(expired)] == [True, True]


@pytest.mark.parametrize(
    "options", [["--log-file", "/no/such/directory/x"], ["--log-config-append", "/no/such/file"]]
)
def test_what_can_not_be_used_is_said(options: list[str]) -> None:
    with pytest.raises(subprocess.CalledProcessError) as failed:
        said(*options)
    assert "LogsUnusable" in failed.value.stderr and "/no/such" in failed.value.stderr
