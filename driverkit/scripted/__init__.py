"""The scripted driver: a YAML file says what the host has; see docs/fake-driver.rst."""

from driverkit.scripted.driver import FakeDriver
from driverkit.scripted.opts import list_opts

__all__ = ["FakeDriver", "list_opts"]
