"""computectl driver new: a package of each kind keeps every rule that its tests can try."""

import argparse
import os
import re
import sys
from pathlib import Path

import pytest

from driverkit.driver_new import KINDS, NewDriver
from tests.servers.process import completed

SKIPPED = {
    "devices": {"thread_safe", "lose_device", "reshape_case"},
    "many-nodes": {"lose_device", "make_big_driver", "reshape_case"},
    "reshape": {"thread_safe"},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_package_keeps_the_rules(tmp_path: Path, kind: str) -> None:
    options = argparse.Namespace(name="mydriver", directory=tmp_path / "mine", kind=kind)
    NewDriver.execute(None, options)  # type: ignore[arg-type]
    texts = "".join(one.read_text() for one in (tmp_path / "mine").rglob("*") if one.is_file())
    assert re.findall("@[A-Z]+@", texts) == [], "a word of the template was not replaced"
    kept = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}
    done = completed(
        *(sys.executable, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "."),
        cwd=tmp_path / "mine",
        env={**kept, "PYTHONPATH": str(tmp_path / "mine")},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    skipped = set(re.findall(r"SKIPPED .*? (?:fixture|with) (\w+)", done.stdout))
    assert skipped == SKIPPED[kind]
