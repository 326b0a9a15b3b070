"""The conformance kit for drivers: docs/driver-kit.rst.

::

    from driverkit.testing import DriverContract

    class TestMyDriver(DriverContract):
        @pytest.fixture
        def make_driver(self, driver_context):
            return lambda: MyDriver(driver_context)
"""

from driverkit.rulebook import RULES, Rule
from driverkit.testing.contract import DriverContract

__all__ = ["RULES", "DriverContract", "Rule"]
