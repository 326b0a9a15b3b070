"""The conformance kit for drivers: docs/driver-kit.rst.

::

    from driverkit.testing import DriverContract

    class TestMyDriver(DriverContract):
        @pytest.fixture
        def make_driver(self, driver_context):
            return lambda: MyDriver(driver_context)
"""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from driverkit.rulebook import RULES, Rule

if TYPE_CHECKING:
    from driverkit.testing.contract import DriverContract

__all__ = ["RULES", "DriverContract", "Rule"]
_HERE = Path(__file__).resolve().parents[2]


def refuse_shadows() -> None:
    """Check the packages that the kit needs.

    :raises ImportError: another package hides one of them, as where a checkout has its own
        ``drivers``.
    """
    for name in ("agent", "computectl", "drivers"):
        spec, ours = find_spec(name), _HERE / name / "__init__.py"
        if spec and spec.origin and Path(spec.origin).resolve() != ours:
            raise ImportError(
                f"{spec.origin} shadows {ours}, which the kit for drivers needs: rename that "
                "package, or keep it out of sys.path (python -m pytest puts the current directory "
                "first there, pytest does not)"
            )


def __getattr__(name: str) -> Any:
    """Import DriverContract at its first use, since each run of pytest imports this package."""
    if name != "DriverContract":
        raise AttributeError(f"module {__name__} has no {name!r}", name=name)
    refuse_shadows()
    from driverkit.testing.contract import DriverContract  # noqa: PLC0415

    return DriverContract
