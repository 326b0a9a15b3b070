"""The driver on hosts that are folders: what it reports, and the rules of the kit."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from make_host import ACCELERATOR, NVME, PLACE, add_disk, cut, make_host, plug_in

from driverkit.contract import DriverContract
from host_accelerators.driver import AcceleratorsDriver
from host_accelerators.offers import offers
from host_accelerators.pci import KINDS, read_devices

GPU = {"total": 1, "reserved": 0, "max_unit": 1}


@pytest.fixture
def host(tmp_path: Path) -> Path:
    return make_host(tmp_path / "host")


def reported(host: Path, kinds=KINDS, exclude=()) -> dict:
    listed = offers(read_devices(host), kinds, exclude)
    return {device.name.removeprefix("device_"): device for device in listed}


def test_each_device_is_offered_by_its_vendor_and_product(host: Path) -> None:
    found = reported(host)
    assert set(found) == {
        "0000:01:00.0",
        "0000:17:00.0",
        "0000:65:00.0",
        "0000:6a:00.0",
        "0000:81:00.0",
    }
    assert found["0000:17:00.0"].inventory == {"CUSTOM_PCI_10DE_2330": GPU}
    assert found["0000:17:00.0"].traits == {
        "CUSTOM_DEVICE_GPU",
        "CUSTOM_DEVICE_VENDOR_10DE",
        "CUSTOM_DEVICE_NUMA_0",
    }


def test_a_device_that_is_cut_is_its_functions_and_not_itself(host: Path) -> None:
    inventory = reported(host)["0000:6a:00.0"].inventory
    assert inventory == {"CUSTOM_PCI_8086_4941": {"total": 4, "reserved": 0, "max_unit": 4}}


def test_the_functions_can_be_kept_one_by_one(host: Path) -> None:
    inventory = reported(host, exclude={"0000:6a:00.2"})["0000:6a:00.0"].inventory
    assert inventory["CUSTOM_PCI_8086_4941"]["total"] == 3


def test_a_disk_of_the_host_is_there_and_reserved(host: Path) -> None:
    found = reported(host)
    assert found["0000:01:00.0"].inventory["CUSTOM_PCI_144D_A80A"]["reserved"] == 1
    assert found["0000:81:00.0"].inventory["CUSTOM_PCI_144D_A80A"]["reserved"] == 0
    assert found["0000:01:00.0"].reason == "nvme0n1 has partitions"
    assert all(device.healthy for device in found.values())


@pytest.mark.parametrize("how", ["mounted", "held", "ill"])
def test_a_disk_that_can_not_be_let_go_is_reserved(host: Path, how: str) -> None:
    controller = host / PLACE / "0000:81:00.0/nvme/nvme1"
    if how == "mounted":
        with (host / "proc/mounts").open("a") as mounts:
            mounts.write("/dev/nvme1n1 /srv xfs rw 0 0\n")
    elif how == "held":
        (controller / "nvme1n1/holders/dm-0").mkdir(parents=True)
    else:
        (controller / "state").write_text("resetting\n")
    device = reported(host)["0000:81:00.0"]
    assert device.records()["CUSTOM_PCI_144D_A80A"]["reserved"] == 1
    assert device.healthy is (how != "ill")


def test_only_the_kinds_that_are_wanted_and_not_what_is_excluded(host: Path) -> None:
    assert set(reported(host, {"gpu"}, {"0000:65:00.0"})) == {"0000:17:00.0"}


def test_a_host_that_does_not_tell_the_numa_node_is_no_trouble(host: Path) -> None:
    (host / PLACE / "0000:17:00.0/numa_node").write_text("-1\n")
    (host / PLACE / "0000:65:00.0/numa_node").unlink()
    traits = reported(host)["0000:17:00.0"].traits | reported(host)["0000:65:00.0"].traits
    assert not any("NUMA" in trait for trait in traits)


def test_a_device_that_goes_while_it_is_read_is_left_out(host: Path) -> None:
    (host / PLACE / "0000:17:00.0/vendor").unlink()
    assert "0000:17:00.0" not in reported(host)


def test_this_machine_can_be_read() -> None:
    assert all(device.kind in KINDS for device in read_devices(Path("/")))


class TestAcceleratorsDriver(DriverContract):
    @pytest.fixture
    def driver_config(self, host: Path) -> str:
        return f"[accelerators]\nroot = {host}\n"

    @pytest.fixture
    def make_driver(self, driver_context):
        return lambda: AcceleratorsDriver(driver_context)

    @pytest.fixture
    def lose_backend(self, host: Path) -> Callable[[], Callable[[], object]]:
        def lose() -> Callable[[], object]:
            lost = host.rename(host.with_name("lost"))
            return lambda: lost.rename(host)

        return lose

    @pytest.fixture
    def make_big_driver(self, host: Path, driver_context):
        def make(count: int = 1000) -> AcceleratorsDriver:
            shutil.rmtree(host / "sys")
            for number in range(count):
                address = f"{number // 256:04x}:{number % 256:02x}:00.0"
                plug_in(host, address, ACCELERATOR, "8086", "4940")
            return AcceleratorsDriver(driver_context)

        return make


def test_a_device_that_is_cut_while_the_agent_runs_becomes_its_functions(host: Path) -> None:
    plug_in(host, "0000:90:00.0", NVME, "1e0f", "0013", numa=1)
    add_disk(host, "0000:90:00.0", "nvme2n1")
    assert set(reported(host)["0000:90:00.0"].inventory) == {"CUSTOM_PCI_1E0F_0013"}
    cut(host, "0000:90:00.0", "0000:90:00.1", product="0014")
    assert set(reported(host)["0000:90:00.0"].inventory) == {"CUSTOM_PCI_1E0F_0014"}
