"""The conformance kit for drivers: docs/driver-kit.rst.

::

    from drivers.testing import DriverContract

    class TestMyDriver(DriverContract):
        @pytest.fixture
        def make_driver(self, driver_context):
            return lambda: MyDriver(driver_context)
"""

from __future__ import annotations

from drivers.testing.contract import DriverContract
from drivers.testing.rules import RULES, Rule

__all__ = ["RULES", "DriverContract", "Rule"]
