"""The conformance kit for drivers: docs/driver-kit.rst.

::

    from driverkit.testing import DriverContract

    class TestMyDriver(DriverContract):
        @pytest.fixture
        def make_driver(self, driver_context):
            return lambda: MyDriver(driver_context)
"""

from typing import TYPE_CHECKING, Any

from driverkit.rulebook import RULES, Rule
from driverkit.shadowing import refuse_shadows

if TYPE_CHECKING:
    from driverkit.testing.contract import DriverContract

__all__ = ["RULES", "DriverContract", "Rule"]


def __getattr__(name: str) -> Any:
    """Import DriverContract at its first use, since each run of pytest imports this package."""
    if name != "DriverContract":
        raise AttributeError(f"module {__name__} has no {name!r}", name=name)
    refuse_shadows()
    from driverkit.testing.contract import DriverContract  # noqa: PLC0415

    return DriverContract
