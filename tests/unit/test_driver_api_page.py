"""docs/driver-api.rst names what drivers.api and the tree have, and nothing else."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Protocol

import pytest

from drivers import abilities, api
from reportclient.provider_tree import ProviderTree

REPOSITORY = Path(__file__).resolve().parents[2]
PAGE = (REPOSITORY / "docs" / "driver-api.rst").read_text()
TABLES = PAGE.partition("The tree's methods")[2].partition("\nOwnership\n=")[0]
OPTIONAL = PAGE.partition("Optional abilities\n")[2].partition("``capabilities``\n")[0]
PROTOCOLS = [one for one in vars(abilities).values() if getattr(one, "_is_protocol", False)]
CALLERS = [*(REPOSITORY / "drivers").glob("load*.py"), *(REPOSITORY / "agent").rglob("*.py")]
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


@pytest.mark.parametrize(
    "ability",
    [one for one in PROTOCOLS if one not in (Protocol, api.Notify)],  # what a method is given
    ids=lambda one: one.__name__,
)
def test_each_optional_method_is_listed_called_and_described(ability: type) -> None:
    name = ability.__name__
    assert ability in abilities.OPTIONAL
    assert f"``{name}``" in OPTIONAL
    for method in abilities.methods(ability):
        assert f"``{method}(" in OPTIONAL
        if ability not in abilities.LEGACY:
            assert (getattr(ability, method).__doc__ or "").startswith("Called ")
            calls = (f"loaded.call({name}.{method}", f"self.call({name}.{method}", f".{method}()")
            code = "".join(path.read_text() for path in CALLERS)
            assert any(call in code for call in calls), "the agent does not call it"


def test_the_version_is_the_present_one() -> None:
    assert f"``API_VERSION`` is ``{api.API_VERSION}``" in PAGE


def test_no_page_example_or_template_imports_another_module_of_drivers() -> None:
    other = re.compile(r"^\s*(?:from drivers import|from drivers\.(?!api )|import drivers)", re.M)
    shown = [
        path
        for top, pattern in [
            ("docs", "*.rst"),
            ("examples", "*.py"),
            ("driverkit/templates", "*.in"),
        ]
        for path in (REPOSITORY / top).rglob(pattern)
    ]
    assert len(shown) > 50
    assert [str(path) for path in shown if other.search(path.read_text())] == []
