"""The contract of a driver that is installed: what ``computectl driver check`` lets pytest run."""

from __future__ import annotations

import pytest

from driverkit.stage import MakeDriver
from driverkit.testing.contract import DriverContract
from drivers import loader
from drivers.api import DriverContext


class TestInstalledDriver(DriverContract):
    """Loaded by its entry point, with the options of the agent's own configuration."""

    @pytest.fixture
    def make_driver(self, driver_context: DriverContext, installed_driver: str) -> MakeDriver:
        """As the agent makes it."""
        return lambda: loader.load([installed_driver], driver_context)[0].driver

    @pytest.fixture
    def driver_context(self, installed_driver_context: DriverContext) -> DriverContext:
        """The operator's configuration, but a state path of its own."""
        return installed_driver_context
