"""Which classes can be drivers of this agent, and what is said of those that can't."""

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


async def coroutine(self, *_):
    """Nothing."""


def generator(self, provider_tree, nodename, allocations=None):
    yield


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        (changed(update_provider_tree=coroutine), "Changed.update_provider_tree is `async def`"),
        (changed(get_available_nodes=coroutine), "Changed.get_available_nodes is `async def`"),
        (changed(degraded=coroutine), "Changed.degraded is `async def`"),
        (changed(update_provider_tree=generator), "update_provider_tree has a `yield` in it"),
        (
            changed(init_host=lambda self, host: None),
            "Changed defines init_host but not cleanup_host: define both or none",
        ),
        (
            type("Empty", (ComputeDriver,), {}),
            "Empty does not define get_available_nodes and update_provider_tree",
        ),
        (
            type("Novas", (), {"get_available_resource": lambda self, node: {}}),
            "is not a subclass of drivers.api.ComputeDriver, though it has methods of a Nova driver:"
            " derive it from ComputeDriver (docs/porting.rst says what else has to change)",
        ),
        (len, "is not a subclass of drivers.api.ComputeDriver"),
    ],
)
def test_a_class_that_can_not_be_a_driver_is_refused(refused, said) -> None:
    assert said in class_problem(refused)
    assert ("Nova" in class_problem(refused)) is (refused.__name__ == "Novas")


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


@pytest.mark.parametrize("capabilities", [None, ["a"], {"a": "yes"}, {1: True}])
def test_capabilities_that_can_not_be_told_are_refused(capabilities) -> None:
    assert capabilities_problem(capabilities).startswith("capabilities ")
