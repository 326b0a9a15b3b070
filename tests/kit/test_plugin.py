"""The pytest plugin in a checkout whose packages have the names of ours."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
USES_THE_KIT = """\
from driverkit.testing import DriverContract


class TestMine(DriverContract):
    pass
"""


def pytest_in(checkout: Path, package: str, text: str) -> subprocess.CompletedProcess[str]:
    (checkout / package).mkdir()
    (checkout / package / "__init__.py").write_text("OWN = True\n")
    (checkout / "test_it.py").write_text(text)
    words = [sys.executable, "-m", "pytest", "-q", "-p", "driverkit.testing.plugin"]
    env = {name: it for name, it in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(REPOSITORY), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    return subprocess.run(words, cwd=checkout, env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("package", ["agent", "drivers", "reportclient"])
def test_a_checkout_may_have_packages_of_our_names(package: str, tmp_path: Path) -> None:
    text = f"import {package}\n\n\ndef test_it():\n    assert {package}.OWN\n"
    done = pytest_in(tmp_path, package, text)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("text", [USES_THE_KIT, "def test_it(driver_context):\n    pass\n"])
def test_the_kit_names_the_package_that_shadows_ours(text: str, tmp_path: Path) -> None:
    done = pytest_in(tmp_path, "drivers", text)
    theirs, ours = (folder / "drivers" / "__init__.py" for folder in (tmp_path, REPOSITORY))
    assert done.returncode != 0
    assert f"ImportError: {theirs} shadows {ours}, which the kit for drivers needs" in done.stdout
