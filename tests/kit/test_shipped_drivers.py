"""The drivers that are shipped keep the rules of the kit."""

from __future__ import annotations

import pytest

from drivers.fake import FakeDriver
from drivers.testing import DriverContract


class TestFakeDriver(DriverContract):
    @pytest.fixture
    def make_driver(self, driver_context):
        return lambda: FakeDriver(driver_context)
