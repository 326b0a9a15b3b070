"""What the contract finds with a Placement's help, it finds alike with a real one."""

import pytest

from driverkit.contract import DriverContract
from reportclient.http import API, PlacementAPI, token_adapter
from tests.kit.good import Backend, GoodDriver
from tests.servers.placement import RealPlacement

ASKING_PLACEMENT = {
    "test_nodes_have_resources_that_placement_takes",
    "test_nothing_is_written_while_nothing_happens",
    "test_data_of_other_services_stays",
    "test_lost_data_is_reported_again",
    "test_nothing_moves_while_nothing_has_to",
}


@pytest.fixture
def api(placement: RealPlacement) -> API:
    return PlacementAPI(token_adapter(placement.url, placement.token))


class TestGoodDriver(DriverContract):
    @pytest.fixture
    def driver_placement(self, api: API) -> API:
        return api

    @pytest.fixture
    def make_driver(self, driver_context):
        backend = Backend()
        return lambda: GoodDriver(driver_context, backend)


for name in vars(DriverContract).keys() - ASKING_PLACEMENT:
    if name.startswith("test_"):  # the Placement in memory will do for these
        setattr(TestGoodDriver, name, None)
