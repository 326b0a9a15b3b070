"""Fixtures of the tests of commands."""

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture(autouse=True)
def without_lines_about_brokers_that_have_ended() -> Iterator[None]:
    """A connection of an earlier test in this process goes on trying, and a command logs to stderr."""
    log = logging.getLogger("oslo.messaging._drivers.impl_rabbit")

    def drop(_: logging.LogRecord) -> bool:
        return False

    log.addFilter(drop)
    yield
    log.removeFilter(drop)
