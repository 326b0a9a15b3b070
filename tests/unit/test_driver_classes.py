"""Which classes can be drivers of this agent, and what is said of those that can't."""

from __future__ import annotations

import pytest

from drivers.api import API_VERSION, ComputeDriver
from drivers.loaded import capabilities_problem
from drivers.loader import class_problem


class Good(ComputeDriver):
    def get_available_nodes(self):
        return []

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        """Nothing."""


def changed(**members) -> type:
    return type("Changed", (Good,), members)


@pytest.mark.parametrize(
    "members",
    [
        {},
        {"api_version": API_VERSION},
        {"init_host": lambda self, host: None, "cleanup_host": lambda self, host: None},
    ],
)
def test_a_good_class_has_no_problem(members) -> None:
    assert class_problem(changed(**members)) is None


@pytest.mark.parametrize(
    "version", [None, "1.0", [1, 0], (1,), (1, 0, 0), (1.0, 0), (True, 0), (1, -1)]
)
def test_a_version_that_is_not_two_numbers_is_refused(version) -> None:
    said = class_problem(changed(api_version=version))
    assert (
        said == f"api_version is {version!r}: a tuple of two whole numbers is needed, like (1, 0)"
    )


@pytest.mark.parametrize(
    ("version", "step"),
    [
        ((1, 1), "upgrade compute-agent"),
        ((2, 0), "upgrade compute-agent"),
        ((0, 9), "upgrade the driver"),
    ],
)
def test_another_version_is_refused_with_who_has_to_move(version, step) -> None:
    said = class_problem(changed(api_version=version))
    assert f"version {version[0]}.{version[1]} of the driver API" in said and said.endswith(step)


def test_half_a_protocol_is_refused() -> None:
    said = class_problem(changed(init_host=lambda self, host: None))
    assert said == "Changed defines init_host but not cleanup_host: define both or none"


class Empty(ComputeDriver):
    pass


def test_both_methods_are_named_where_both_are_missing() -> None:
    assert (
        class_problem(Empty) == "Empty does not define get_available_nodes and update_provider_tree"
    )


class Novas:
    def get_available_resource(self, nodename):
        return {}


def test_a_class_in_novas_manner_is_told_what_to_derive_from() -> None:
    said = class_problem(Novas)
    assert "is not a subclass of drivers.api.ComputeDriver" in said
    assert "derive it from ComputeDriver" in said and "docs/porting.rst" in said


def test_what_is_no_class_at_all_gets_no_advice_about_nova() -> None:
    assert "Nova" not in class_problem(len)


@pytest.mark.parametrize("capabilities", [None, ["a"], {"a": "yes"}, {1: True}])
def test_capabilities_that_can_not_be_told_are_refused(capabilities) -> None:
    assert capabilities_problem(capabilities).startswith("capabilities ")
