"""The scripts of the lab without a lab: each says what to do."""

import os
import platform
import subprocess
from pathlib import Path

import pytest

from tests.servers.process import completed

REPOSITORY = Path(__file__).resolve().parents[2]
on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the lab is x86_64")


def run_with(lab: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return completed(
        REPOSITORY / "tools" / script, *words, env={**os.environ, "COMPUTE_AGENT_LAB_DIR": str(lab)}
    )


@on_x86_64
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["demo.sh", "--lab", "--driver", "fake"], 1, "--lab and --driver do not go together"),
        (["lab.sh", "begin"], 2, "usage: tools/lab.sh start | stop"),
        (["lab.sh", "plug"], 1, "the lab does not run"),
        (["lab.sh", "status"], 1, "start it with tools/lab.sh start"),
        (["lab.sh", "uri"], 1, ""),
        (["lab.sh", "stop"], 0, "the lab is stopped"),
    ],
)
def test_without_a_lab_the_scripts_say_what_to_do(tmp_path, words, code, said):
    told = run_with(tmp_path / "lab", *words)
    assert told.returncode == code, told.stderr
    assert said in told.stdout + told.stderr


@on_x86_64
def test_a_directory_that_is_too_long_for_sockets_is_refused(tmp_path):
    told = run_with(tmp_path / ("x" * 120), "lab.sh", "start")
    assert told.returncode == 1
    assert "too long for a unix socket" in told.stderr
    assert "COMPUTE_AGENT_LAB_DIR=/some/where" in told.stderr
