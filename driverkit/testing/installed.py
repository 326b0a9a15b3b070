"""The contract of a driver that is installed: what ``computectl driver check`` lets pytest run."""

import importlib
import inspect
import sys
from pathlib import Path

import pytest

from driverkit.author_file import author_file
from driverkit.check import checked_here
from driverkit.context import Options, configuration, options_of
from driverkit.stage import MakeDriver
from driverkit.testing.contract import DriverContract
from drivers import loader
from drivers.api import DriverContext


def _class_in(file: str) -> type[DriverContract]:
    """The test class of an author's file.  :raises ImportError: it has none."""
    module = importlib.import_module(author_file(file).module)
    things = vars(module).values()
    kinds: list[type[DriverContract]]
    kinds = [one for one in things if _is_contract_of(module.__name__, one)]
    if not kinds:
        raise ImportError(f"{file} has no class that derives from driverkit.testing.DriverContract")
    # Others may be there to be inherited from.
    return next((one for one in kinds if one.__name__.startswith("Test")), kinds[0])


def _is_contract_of(module: str, thing: object) -> bool:
    return (
        inspect.isclass(thing) and issubclass(thing, DriverContract) and thing.__module__ == module
    )


class _Installed(DriverContract):
    """With the options of the agent's own configuration."""

    @pytest.fixture
    def driver_context(self, tmp_path: Path) -> DriverContext:
        """The operator's configuration, but a state path of its own."""
        conf = configuration(_DRIVER.config_files, _DRIVER.config_dirs)
        return DriverContext(_DRIVER.host, tmp_path, conf)


_DRIVER = checked_here()[0]
_BASE = _class_in(_DRIVER.fixtures) if _DRIVER.fixtures else _Installed


class TestInstalledDriver(_BASE):  # type: ignore[misc,valid-type]  # as it was asked for
    """Loaded by its entry point; with an author's fixtures, what these break and mend."""

    @pytest.fixture
    def make_driver(self, driver_context: DriverContext) -> MakeDriver:
        """Return the driver as the agent creates it."""
        return lambda: loader.load_drivers([_DRIVER.name], driver_context)[0].driver

    @pytest.fixture
    def driver_options(self) -> Options:
        """Registered when it is loaded; the drivers that the author's file names, at once."""
        return options_of(vars(sys.modules[_BASE.__module__]).values())
