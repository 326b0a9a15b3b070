"""The tests that ``computectl driver check`` runs: DriverContract for an installed driver."""

import importlib
import inspect
import sys
from pathlib import Path

import pytest

from driverkit.check import author_modules, driver_under_check
from driverkit.stage import MakeDriver
from driverkit.testing.contract import DriverContract
from driverkit.testing.fixtures import Options, configuration, options_of
from drivers import loader
from drivers.api import DriverContext


def _class_in(file: str) -> type[DriverContract]:
    """Return the test class of an author's file.  :raises ImportError: it has none."""
    module = importlib.import_module(author_modules(file).own)
    classes = (value for value in vars(module).values() if inspect.isclass(value))
    own = (cls for cls in classes if cls.__module__ == module.__name__)
    contracts: list[type[DriverContract]]
    contracts = [cls for cls in own if issubclass(cls, DriverContract)]
    if not contracts:
        raise ImportError(f"{file} has no class that derives from driverkit.testing.DriverContract")
    # Prefer a test class: the others may be its base classes.
    return next((cls for cls in contracts if cls.__name__.startswith("Test")), contracts[0])


class _Installed(DriverContract):
    """DriverContract with the agent's configuration, if ``--fixtures`` names no test class."""

    @pytest.fixture
    def driver_context(self, tmp_path: Path) -> DriverContext:
        """Return a context with the operator's configuration and a temporary state path."""
        conf = configuration(_DRIVER.config_files, _DRIVER.config_dirs)
        return DriverContext(_DRIVER.host, tmp_path, conf)


_DRIVER = driver_under_check()[0]
_BASE = _class_in(_DRIVER.fixtures) if _DRIVER.fixtures else _Installed


class TestInstalledDriver(_BASE):  # type: ignore[misc,valid-type]  # chosen at run time
    """The tests of the installed driver, with the author's fixtures if there are any."""

    @pytest.fixture
    def make_driver(self, driver_context: DriverContext) -> MakeDriver:
        """Return a callable that creates the driver as the agent does."""
        return lambda: loader.load_drivers([_DRIVER.name], driver_context)[0].driver

    @pytest.fixture
    def driver_options(self) -> Options:
        """Return the options of the drivers in the author's file.

        The installed driver's own options are registered when it is loaded.
        """
        return options_of(vars(sys.modules[_BASE.__module__]).values())
