"""Packages that are installed: few on a hypervisor, on docs/install.rst, in constraints.txt."""

import configparser
import re
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.unit.packages import packages_of

MOST = 85
REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = REPOSITORY / "docs" / "install.rst"
ELSEWHERE = {"sqlalchemy", "oslo-db"}
"""Only the extra registry brings them."""


def test_a_hypervisor_gets_few_packages() -> None:
    names = packages_of("libvirt").keys()
    assert {"oslo-messaging", "tenacity"} < names
    assert len(names) <= MOST, "python -m tests.unit.packages prints them"
    assert not names & ELSEWHERE


def test_a_source_distribution_has_the_folders_of_the_readme() -> None:
    texts = ((REPOSITORY / name).read_text() for name in ("README.rst", "setup.cfg", "MANIFEST.in"))
    readme, setup, manifest = texts
    folders = set(re.findall(r"``(\w+)/``", readme))
    packages = setup.partition("[options.packages.find]")[2].partition("\n\n")[0]
    packed = {
        *re.findall(r"^    (\w+)\*$", packages, re.M),
        *re.findall(r"^graft (\w+)$", manifest, re.M),
    }
    assert len(folders) > 9 and sorted(folders - packed) == []


# -- constraints.txt: the versions that the tests ran with, for each library that is needed


def needed() -> list[str]:
    config = configparser.ConfigParser()
    config.read(REPOSITORY / "setup.cfg")
    extras = config["options.extras_require"].values()
    library = tomllib.loads((REPOSITORY / "reportclient" / "pyproject.toml").read_text())["project"]
    beside = [*library["dependencies"], *library["optional-dependencies"]["testing"]]
    text = "\n".join([config["options"]["install_requires"], *extras, *beside])
    lines = (line.strip() for line in text.splitlines())
    return sorted({line for line in lines if line and not line.startswith("#")})


def pinned() -> dict[str, str]:
    lines = (REPOSITORY / "constraints.txt").read_text().splitlines()
    pins = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("text", needed())
def test_what_is_needed_is_pinned_within_its_bounds(text: str) -> None:
    requirement = Requirement(text)
    if canonicalize_name(requirement.name) not in ("compute-agent", "reportclient"):
        assert pinned()[canonicalize_name(requirement.name)] in requirement.specifier
