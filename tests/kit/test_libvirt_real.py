"""The libvirt driver keeps the rules on a real libvirtd, and while that one is killed."""

import pytest

from driverkit.contract import DriverContract
from drivers.libvirt.driver import LibvirtDriver
from tests.servers.libvirtd import PrivateLibvirtd


class TestLibvirtDriver(DriverContract):
    @pytest.fixture
    def driver_config(self, libvirtd: PrivateLibvirtd) -> str:
        return libvirtd.group

    @pytest.fixture
    def make_driver(self, driver_context):
        return lambda: LibvirtDriver(driver_context)

    @pytest.fixture
    def lose_backend(self, libvirtd: PrivateLibvirtd):
        def lose():
            libvirtd.kill9()
            return libvirtd.start

        return lose
