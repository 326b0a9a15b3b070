"""The scripted driver: reports the hosts that a YAML file describes; see docs/fake-driver.rst."""

from driverkit.scripted.driver import FakeDriver
from driverkit.scripted.opts import list_opts

__all__ = ["FakeDriver", "list_opts"]
