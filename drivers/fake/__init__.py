"""The scripted driver: a YAML file says what the host has; see docs/fake-driver.rst."""

from drivers.fake.driver import FakeDriver
from drivers.fake.opts import list_opts

__all__ = ["FakeDriver", "list_opts"]
