"""Every error: one line, a next step, and the right exit code."""

import re
from contextlib import suppress

import pytest

from agent.config import ConfigError
from agent.errors import RecordUnusable, RegistryUnavailable, SignatureRefused
from agent.nodes.identity import IdentityError, IdentityNotReady
from computectl.app import ComputeCtl
from computectl.shared.commands import as_command_error
from computectl.shared.errors import PROBLEMS, UNUSABLE, CommandError
from drivers.errors import DriverNotFound
from reportclient import errors


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
        (RecordUnusable("a.json can't be read"), PROBLEMS, "the user of compute-agent"),
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
