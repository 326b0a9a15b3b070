"""docs/driver-api.rst names what drivers.api and the tree have, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drivers import api
from reportclient.provider_tree import ProviderTree

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "driver-api.rst").read_text()
TABLES = PAGE.partition("The tree's methods")[2].partition("\nOwnership\n=")[0]
METHODS = {name for name in dir(ProviderTree) if not name.startswith("_")}


@pytest.mark.parametrize("name", sorted(METHODS))
def test_each_method_of_the_tree_is_there(name: str) -> None:
    assert f"``{name}``" in TABLES


def test_no_other_method_is_there() -> None:
    assert set(re.findall(r"``([a-z_]+)(?:\(|``)", TABLES)) <= METHODS


@pytest.mark.parametrize(
    "name", sorted(set(api.__all__) - {"Allocations", "ProviderData", "ProviderTree"})
)
def test_each_name_of_the_api_is_there(name: str) -> None:
    assert f"``{name}``" in PAGE or f"``{name}" in PAGE


def test_the_version_is_the_present_one() -> None:
    assert f"``API_VERSION`` is ``{api.API_VERSION}``" in PAGE
