"""Every error: one line, a next step, and the right exit code."""

from __future__ import annotations

import pytest

from agent.config import ConfigError
from agent.nodes.identity import IdentityError, IdentityNotReady
from agent.registry.errors import RegistryUnavailable
from computectl.reading.services import registry_errors
from computectl.shared.errors import PROBLEMS, UNUSABLE, CommandError, as_command_error
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


def test_another_users_sqlite_file_is_no_matter_of_compute_registry() -> None:
    lost = RegistryUnavailable("sqlite:////var/lib/x: unable to open database file")
    with pytest.raises(CommandError, match="the user of compute-agent"), registry_errors():
        raise lost
    away = RegistryUnavailable("compute-registry: no answer")
    with pytest.raises(CommandError, match="is compute-registry up"), registry_errors():
        raise away
