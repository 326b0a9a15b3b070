"""Two distributions: the agent without the library that it needs, the library without the agent."""

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable
from email.message import Message
from email.parser import Parser
from importlib import metadata
from pathlib import Path

import pytest
from docutils.core import publish_string
from packaging.requirements import Requirement

from driverkit.driver_new import KINDS
from tests.integration.author import Author
from tests.integration.test_readme import block
from tests.servers.process import completed
from tests.unit.packages import packages_of, with_what_they_need

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("agent", "compute_registry", "computectl", "driverkit", "drivers")
BESIDE = ("setup.cfg", "pyproject.toml", "MANIFEST.in", "README.rst", "LICENSE")
LEFT_OUT = shutil.ignore_patterns("__pycache__", "*.egg-info", "build")
NO_CODE = {"CHANGELOG.rst", "GUIDE.rst", "LICENSE", "README.rst", "pyproject.toml"}
"""Files of the folder reportclient that no wheel installs in it."""
LIBRARY = (Requirement("keystoneauth1"), Requirement("tenacity"))
"""All that the library needs."""
PIP = [sys.executable, "-m", "pip", "-q"]
SDIST = "import sys; from setuptools import build_meta; build_meta.build_sdist(sys.argv[1])"
ALL_BUT_TESTING = """
import pkgutil, reportclient
names = [each.name for each in pkgutil.walk_packages(reportclient.__path__, "reportclient.")]
for name in names:
    if not name.startswith("reportclient.testing"):
        __import__(name)
print(len(names), reportclient.__file__)
"""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy: building leaves its traces where it is done."""
    copy = tmp_path_factory.mktemp("wheel") / "source"
    copy.mkdir()
    for name in (*PACKAGES, "reportclient", "etc", "tests"):
        shutil.copytree(REPOSITORY / name, copy / name, ignore=LEFT_OUT)
    for name in BESIDE:
        shutil.copy(REPOSITORY / name, copy / name)
    return copy


def metadata_of(wheels: Path, name: str) -> Message:
    (wheel,) = wheels.glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (about,) = (each for each in archive.namelist() if each.endswith(".dist-info/METADATA"))
        return Parser().parsestr(archive.read(about).decode())


@pytest.fixture(scope="module")
def wheels(source: Path) -> Path:
    """The directory of both wheels, built from the paths."""
    directory = source.parent / "wheels"
    command = [*PIP, "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w"]
    subprocess.run(
        [*command, str(directory), str(source / "reportclient"), str(source)],
        check=True,
        timeout=300,
    )
    return directory


def contents(wheels: Path, name: str) -> tuple[set[str], list[str]]:
    """The files of a wheel outside its metadata, and what it requires."""
    (wheel,) = wheels.glob(f"{name}-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    inside = {each for each in names if ".dist-info/" not in each}
    return inside, metadata_of(wheels, name).get_all("Requires-Dist") or []


@pytest.fixture(scope="module")
def author(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Author:
    """An author beside whom the wheels are installed, before all that is importable here."""
    author = Author(tmp_path_factory.mktemp("typed"))
    author.prepare()
    (packages,) = author.directory.glob("venv/lib/python*/site-packages")
    for wheel in wheels.glob("*.whl"):
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(packages)
    return author


def files(source: Path, *tops: str) -> set[str]:
    found = (path for top in tops for path in (source / top).rglob("*"))
    return {
        str(path.relative_to(source))
        for path in found
        if path.is_file() and not {"build", "reportclient.egg-info"} & set(path.parts)
    }


def test_the_agents_wheel_has_its_packages_and_requires_the_library(
    source: Path, wheels: Path
) -> None:
    inside, required = contents(wheels, "compute_agent")
    shared = {each for each in inside if "/data/share/compute-agent/" in each}
    assert inside - shared == files(source, *PACKAGES)
    assert {each.rpartition("/")[2] for each in shared} == {
        each.rpartition("/")[2] for each in files(source, "etc")
    }
    assert "reportclient" in {Requirement(each).name for each in required}


@pytest.mark.parametrize("name", ["compute_agent", "reportclient"])
def test_an_index_takes_the_metadata_and_renders_the_description(wheels: Path, name: str) -> None:
    about = metadata_of(wheels, name)
    for field in ("Author", "Summary", "Keywords", "License-File"):
        assert about[field], field
    assert about["Requires-Python"] == ">=3.11"
    assert "Apache-2.0" in (about["License"], about["License-Expression"])
    classifiers = about.get_all("Classifier", [])
    assert {"Operating System :: POSIX :: Linux", "Typing :: Typed"} <= set(classifiers)
    topics = [each for each in classifiers if each.startswith("Topic :: ")]
    of_licence = [each for each in classifiers if each.startswith("License :: ")]
    assert topics and bool(of_licence) == (about["License-Expression"] is None)
    assert about["Description-Content-Type"].startswith("text/x-rst")
    index = {"file_insertion_enabled": False, "raw_enabled": False, "halt_level": 2}
    page = publish_string(about.get_payload(), writer="html5", settings_overrides=index)
    links = set(re.findall(r'href="([^"]+)"', page.decode()))
    assert name != "reportclient" or not [each for each in links if each[0] != "#"], links


def test_the_librarys_wheel_and_sdist_have_the_library_only(source: Path, wheels: Path) -> None:
    inside, required = contents(wheels, "reportclient")
    folder = {each.removeprefix("reportclient/") for each in files(source, "reportclient")}
    assert inside == {f"reportclient/{each}" for each in folder - NO_CODE}
    needed = {each.name for each in map(Requirement, required) if not each.marker}
    assert needed <= set(with_what_they_need([*LIBRARY]))
    subprocess.run(
        [sys.executable, "-P", "-c", SDIST, str(wheels)], cwd=source / "reportclient", check=True
    )
    (sdist,) = wheels.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {each.name.partition("/")[2] for each in archive if each.isfile()}
    assert {each for each in names if ".egg-info/" not in each} == folder | {
        "PKG-INFO",
        "setup.cfg",
    }


class Environment:
    """A virtual environment with some of the packages that are installed here, and no index."""

    def __init__(self, directory: Path, packages: Iterable[str]) -> None:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(directory)], check=True)
        self.python = str(directory / "bin" / "python")
        libraries = directory / "libraries"
        libraries.mkdir()
        tops = {path.parts[0] for name in packages for path in metadata.files(name) or ()}
        for top in tops - {"..", "__pycache__"}:
            (libraries / top).symlink_to(Path(sysconfig.get_path("purelib"), top))
        (site,) = directory.glob("lib/python*/site-packages")
        (site / "libraries.pth").write_text(f"{libraries}\n")

    def install(self, *what: str) -> None:
        command = [*PIP, "--python", self.python, "install", "--no-index", "--no-build-isolation"]
        subprocess.run([*command, *what], check=True, timeout=300)

    def run(self, cwd: Path, *words: str) -> str:
        command = [self.python, *words]
        return completed(*command, cwd=cwd, check=True).stdout


def test_the_library_needs_keystoneauth_and_tenacity_only_and_is_typed(
    tmp_path: Path, wheels: Path
) -> None:
    needed = with_what_they_need([*LIBRARY])
    environment = Environment(tmp_path / "alone", needed)
    (wheel,) = wheels.glob("reportclient-*.whl")
    environment.install(str(wheel))
    number, place = environment.run(tmp_path, "-c", ALL_BUT_TESTING).split()
    assert int(number) > 25 and place.startswith(str(tmp_path / "alone"))
    shutil.copy(REPOSITORY / "examples" / "client" / "accelerators.py", tmp_path)
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", environment.python]
    checked = completed(*command, "accelerators.py", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout


@pytest.mark.parametrize(
    "editable",
    [
        pytest.param((), id="installed"),
        pytest.param(("-e",), id="editable", marks=pytest.mark.faults),
    ],
)
def test_a_checkout_installs_both_in_one_command_without_an_index(
    tmp_path: Path, source: Path, editable: tuple[str, ...]
) -> None:
    needed = [name for name in packages_of("libvirt") if name != "reportclient"]
    environment = Environment(tmp_path / "both", [*needed, "setuptools"])
    environment.install(*editable, str(source / "reportclient"), *editable, f"{source}[libvirt]")
    for cwd in (tmp_path, source):  # in the checkout its folders come first
        out = environment.run(cwd, "-c", "import agent.main, reportclient.client as c; print(c)")
        assert "reportclient/client.py" in out
    program = Path(environment.python).with_name("computectl")
    assert "usage: computectl" in environment.run(tmp_path, str(program), "--help")
    (tmp_path / "typed").mkdir()
    (tmp_path / "typed" / "mydriver.py").write_text(block(".. code-block:: python"))
    command = [sys.executable, "-m", "mypy", "--strict", "--python-executable", environment.python]
    checked = completed(
        *(*command, "mydriver.py"),
        cwd=tmp_path / "typed",
        env={name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
    )
    assert checked.returncode == 0, checked.stdout


def mypy(author: Author, directory: str) -> str:
    """What it says of all in a directory, with that directory's own settings."""
    words = (
        f"{sys.executable} -m mypy --strict --python-executable {author.directory}/venv/bin/python"
    )
    done = author.shell(f"cd {directory} && {words} --cache-dir {author.directory}/cache .")
    return done.stdout + done.stderr


@pytest.mark.parametrize("kind", KINDS)
def test_a_new_package_and_its_tests_are_typed_strictly(author: Author, kind: str) -> None:
    name = kind.replace("-", "_")
    author.run(f"computectl driver new typed_{name} --kind {kind}")
    assert "Success: no issues found" in mypy(author, f"typed_{name}")


def test_the_readmes_driver_is_typed_strictly_and_a_wrong_one_is_found(author: Author) -> None:
    (author.cwd / "readme").mkdir()
    file = author.cwd / "readme" / "mydriver.py"
    file.write_text(block(".. code-block:: python"))
    assert "Success: no issues found" in mypy(author, "readme")
    file.write_text(file.read_text().replace('{"CUSTOM_LOCAL_DISK": 1}', '["CUSTOM_LOCAL_DISK"]'))
    assert 'Argument 2 to "Device" has incompatible type' in mypy(author, "readme")
