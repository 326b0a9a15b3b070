"""The pytest plugin: an option, and the fixtures that DriverContract uses.

pytest loads it in every run where compute-agent is installed.  So it imports nothing but
``driverkit`` until a fixture is used: a checkout may have its own ``agent`` or ``drivers``.
"""

from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from driverkit.testing import refuse_shadows

OPTION = "--real-placement"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option ``--real-placement``."""
    parser.getgroup("compute-agent drivers").addoption(
        OPTION,
        action="store_true",
        help="let DriverContract report to a real Placement, started for this run, instead "
        "of the one in memory; needs compute-agent[dev]",
    )


def _kit() -> ModuleType:
    refuse_shadows()
    from driverkit.testing import fixtures  # noqa: PLC0415

    return fixtures


@pytest.fixture
def driver_config() -> str:
    """Return the text of the driver's configuration file; override it to set options."""
    return ""


@pytest.fixture
def driver_options(request: pytest.FixtureRequest) -> Any:
    """Return ``[(group, [options])]`` to register: of all drivers in the test's module."""
    return _kit().options_of(vars(request.module).values())


@pytest.fixture
def driver_context(tmp_path: Path, driver_options: Any, driver_config: str) -> Any:
    """Return a context for the driver: a host name, a state path, and ``conf``.

    :raises oslo_config.cfg.Error: ``driver_config`` is not a configuration, or options contradict.
    """
    return _kit().context(tmp_path, driver_options, driver_config)


@pytest.fixture(scope="session")
def driver_placement_server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Any]:
    """The real Placement of this run; ``None`` without ``--real-placement``."""
    if not request.config.getoption(OPTION):
        yield None
        return
    server = _kit().started(tmp_path_factory.mktemp("placement"), OPTION)
    yield server
    server.stop()


@pytest.fixture
def driver_placement(driver_placement_server: Any) -> Any:
    """The API of an empty Placement: the fake in memory, or the real one."""
    return _kit().placement(driver_placement_server)
