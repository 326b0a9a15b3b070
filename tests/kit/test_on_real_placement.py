"""What the kit judges with a Placement's help, it judges alike with a real one."""

from __future__ import annotations

import pytest

from driverkit.placement.server import empty
from driverkit.stage import Stage
from driverkit.testing import DriverContract
from reportclient.http import PlacementAPI, token_adapter
from tests.kit.bad import BAD
from tests.kit.good import Backend, GoodDriver, old_shape
from tests.kit.test_bad_drivers import failure_of

ASKING_PLACEMENT = {
    "valid",
    "second-period",
    "foreign-providers",
    "drift",
    "reshape-needed",
    "reshape-asked",
    "reshape-totals",
    "foreign-allocations",
}
ELSEWHERE = [
    name
    for name, test in vars(DriverContract).items()
    if hasattr(test, "driver_rule") and test.driver_rule.name not in ASKING_PLACEMENT
]


@pytest.fixture
def driver_placement(placement):
    return PlacementAPI(token_adapter(placement.url, placement.token))


class TestGoodDriver(DriverContract):
    @pytest.fixture
    def make_driver(self, driver_context):
        backend = Backend()
        return lambda: GoodDriver(driver_context, backend)

    @pytest.fixture
    def reshape_case(self):
        return old_shape()


for name in ELSEWHERE:  # the Placement in memory will do for these
    setattr(TestGoodDriver, name, None)


@pytest.mark.parametrize("name", ["PutsAllOnOneCard", "LeavesOneBehind", "TakesAForeignOneToo"])
def test_a_bad_reshape_is_caught(name: str, driver_context, driver_placement) -> None:
    [bad] = [bad for bad in BAD if bad.driver.__name__ == name]
    backend = Backend()
    stage = Stage(driver_placement, driver_context, lambda: bad.driver(driver_context, backend))
    failure = failure_of(bad.rule, stage, {"reshape_case": old_shape()})
    stage.close()
    assert not [words for words in bad.words if words not in failure.seen], failure.seen


def test_the_kit_empties_what_it_has_filled(driver_context, driver_placement) -> None:
    backend = Backend()
    stage = Stage(driver_placement, driver_context, lambda: GoodDriver(driver_context, backend))
    loaded = stage.open()
    [root] = stage.roots(loaded)
    root.report(loaded)
    stage.close()
    assert driver_placement.request("GET", "/resource_providers")["resource_providers"]
    empty(driver_placement)
    assert driver_placement.request("GET", "/resource_providers")["resource_providers"] == []
