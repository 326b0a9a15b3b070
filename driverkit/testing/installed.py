"""The tests that ``computectl driver check`` runs if ``--fixtures`` names no test class."""

from pathlib import Path

import pytest

from driverkit.check import driver_under_check
from driverkit.testing.contract import DriverContract
from driverkit.testing.fixtures import configuration
from drivers.api import DriverContext


class TestInstalledDriver(DriverContract):
    """DriverContract with the agent's configuration."""

    @pytest.fixture
    def driver_context(self, tmp_path: Path) -> DriverContext:
        """Return a context with the operator's configuration and a temporary state path."""
        driver = driver_under_check()[0]
        conf = configuration(driver.config_files, driver.config_dirs)
        return DriverContext(driver.host, tmp_path, conf)
