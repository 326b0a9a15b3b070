"""Every error: one line, a next step, and the right exit code."""

import re
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from agent.config import ConfigError
from agent.errors import RegistryUnavailable, SignatureRefused
from agent.nodes.identity import IdentityError, IdentityNotReady
from agent.state.document import Damaged, Unusable
from computectl.app import ComputeCtl, main
from computectl.shared.commands import as_command_error
from computectl.shared.errors import PROBLEMS, UNUSABLE, CommandError
from drivers.errors import DriverNotFound
from reportclient import errors
from tests.registries import reported


@pytest.mark.parametrize(
    ("err", "code", "hint"),
    [
        (ConfigError("a.conf:3: no option hots"), UNUSABLE, "--config-file"),
        (IdentityNotReady("Permission denied"), UNUSABLE, "the user of compute-agent"),
        (IdentityError("compute_id: no UUID"), UNUSABLE, "reports nothing"),
        (DriverNotFound("no driver 'x'"), UNUSABLE, "compute_driver"),
        (errors.AuthenticationFailed("401"), UNUSABLE, "[placement] in a.conf"),
        (errors.Forbidden("403"), UNUSABLE, "[placement] in a.conf"),
        (errors.TooOld("1.29"), UNUSABLE, "upgrade"),
        (errors.Unreachable("refused"), PROBLEMS, "check that Placement is up"),
        (errors.Rejected("400"), PROBLEMS, "nothing was changed"),
        (RuntimeError("a\nb"), PROBLEMS, "please report"),
        (CommandError("this", "do that", 1), PROBLEMS, "do that"),
        (Damaged("a.json is damaged"), PROBLEMS, "start or restart compute-agent"),
        (Unusable("a.json: Read-only file system"), PROBLEMS, "correct this, and run the command"),
        (RegistryUnavailable("no answer"), PROBLEMS, "is compute-registry up"),
        (
            SignatureRefused("heartbeat is not signed"),
            UNUSABLE,  # the same call will be refused again
            "master_key and host_key of [registry] in a.conf",
        ),
    ],
)
def test_an_error_is_one_line_with_a_next_step(err: Exception, code: int, hint: str) -> None:
    failure = as_command_error(err, "a.conf")
    text = str(failure)
    assert failure.code == code
    assert "\n" not in text
    what, _, step = text.partition("; ")
    assert hint in step
    assert " ".join(str(err).split()).partition(";")[0] in what


@pytest.mark.parametrize("words", ["status", "--help", "--version"])
def test_a_full_disk_under_the_output_is_one_line(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    config = tmp_path / "agent.conf"
    config.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n")
    reported(tmp_path)
    monkeypatch.setattr(sys, "stdout", Path("/dev/full").open("w"))
    with pytest.raises(SystemExit) as ended:
        main(["--config-file", str(config), words])
    assert ended.value.code == PROBLEMS
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("computectl: the output: No space left on device; correct this")


def test_a_closed_output_is_no_error(monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    assert (ended.value.code, capsys.readouterr().err) == (0, "")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ("stat", "there is no command stat; is status meant?"),
        ("help stat", "there is no command stat; is status meant?"),
        ("ser lis", "there is no command ser lis; is service list meant?"),
        ("service", "there is no command service; there are service delete, service disable"),
        ("service lis", "there is no command service lis; there are service delete, service dis"),
        ("audit --al", "there is no option --al; is --all meant?"),
        ("status --so", "there is no option --so; there are --sort-column, --sort-ascending"),
        ("tree --config x", "there is no option --config; is --column meant?"),
        ("--config x tree", "there is no option --config; there are --config-file, --config-dir"),
    ],
)
def test_an_abbreviation_is_refused_with_the_names_that_there_are(
    words: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code = ComputeCtl().run(words.split())
    except SystemExit as end:
        code = int(end.code or 0)
    said = capsys.readouterr()
    assert (code, said.out) == (UNUSABLE, "")
    assert said.err.startswith(f"computectl: {says}")


@pytest.mark.parametrize(
    "words", ["--help", "service --help", "retire --help", "candidates --help"]
)
def test_help_fits_a_narrow_terminal(
    words: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    with suppress(SystemExit):
        ComputeCtl().run(words.split())
    lines = capsys.readouterr().out.splitlines()
    wide = [line for line in lines if len(line) > 60]
    assert len(lines) > 5
    # Only argparse's lists of values, and commands that are to be copied, are wider.
    assert not [
        line for line in wide if not re.search(r"^ +\[--sort|\{.*\}|^  (computectl|    --)", line)
    ]
