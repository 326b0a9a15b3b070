"""constraints.txt: the versions that the tests ran with, for each library that is needed."""

from __future__ import annotations

import configparser
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]


def needed() -> list[str]:
    config = configparser.ConfigParser()
    config.read(ROOT / "setup.cfg")
    extras = config["options.extras_require"].values()
    library = tomllib.loads((ROOT / "reportclient" / "pyproject.toml").read_text())["project"]
    beside = [*library["dependencies"], *library["optional-dependencies"]["testing"]]
    text = "\n".join([config["options"]["install_requires"], *extras, *beside])
    lines = (line.strip() for line in text.splitlines())
    return sorted({line for line in lines if line and not line.startswith("#")})


def pinned() -> dict[str, str]:
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = (line.split("==") for line in lines if not line.startswith("#"))
    return {canonicalize_name(name): version for name, version in pins}


@pytest.mark.parametrize("text", needed())
def test_what_is_needed_is_pinned_within_its_bounds(text: str) -> None:
    requirement = Requirement(text)
    if canonicalize_name(requirement.name) not in ("compute-agent", "reportclient"):
        assert pinned()[canonicalize_name(requirement.name)] in requirement.specifier
