import shutil

import pytest
from disks import DisksDriver

from driverkit.contract import DriverContract


def add_disks(sysfs, count):
    for number in range(count):
        disk = sysfs / "block" / f"nvme{number}n1"
        disk.mkdir(parents=True)
        (disk / "size").write_text(f"{(number + 1) * 2**21}\n")


class TestDisksDriver(DriverContract):
    @pytest.fixture
    def sysfs(self, tmp_path):
        add_disks(tmp_path / "sys", 3)
        return tmp_path / "sys"

    @pytest.fixture
    def driver_config(self, sysfs):
        return f"[disks]\nsysfs = {sysfs}\n"

    @pytest.fixture
    def make_driver(self, driver_context):
        return lambda: DisksDriver(driver_context)

    @pytest.fixture
    def lose_backend(self, sysfs):
        def lose():
            away = sysfs.rename(sysfs.with_name("away"))
            return lambda: away.rename(sysfs)

        return lose

    @pytest.fixture
    def make_big_driver(self, sysfs, driver_context):
        def make(devices):
            shutil.rmtree(sysfs)
            add_disks(sysfs, devices)
            return DisksDriver(driver_context)

        return make
