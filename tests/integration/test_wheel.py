"""What pip installs is all of the project's packages, with their data, and nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient")
BESIDE = ("setup.cfg", "pyproject.toml", "MANIFEST.in", "README.rst", "LICENSE")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: building leaves its traces where it is done."""
    copy = tmp_path_factory.mktemp("wheel") / "source"
    copy.mkdir()
    for name in (*PACKAGES, "etc", "tests"):
        shutil.copytree(REPOSITORY / name, copy / name, ignore=LEFT_OUT)
    for name in BESIDE:
        shutil.copy(REPOSITORY / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def wheel(source: Path) -> set[str]:
    """The names of the files in the wheel."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    command += ["--no-build-isolation", "--wheel-dir", str(source.parent), str(source)]
    subprocess.run(command, check=True, timeout=300)
    (built,) = source.parent.glob("*.whl")
    with zipfile.ZipFile(built) as archive:
        return set(archive.namelist())


def files(source: Path, *tops: str) -> set[str]:
    found = (path for top in tops for path in (source / top).rglob("*"))
    return {str(path.relative_to(source)) for path in found if path.is_file()}


def test_every_file_of_the_packages_is_there(source: Path, wheel: set[str]) -> None:
    assert files(source, *PACKAGES) <= wheel


def test_the_sample_and_the_units_are_there(source: Path, wheel: set[str]) -> None:
    shared = {name.rpartition("/")[2] for name in wheel if "/data/share/compute-agent/" in name}
    assert shared == {name.rpartition("/")[2] for name in files(source, "etc")}


def test_no_other_package_comes_along(wheel: set[str]) -> None:
    tops = {name.partition("/")[0] for name in wheel}
    assert {top for top in tops if not top.startswith("compute_agent-")} == set(PACKAGES)
