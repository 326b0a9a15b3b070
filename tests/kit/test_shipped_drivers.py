"""The drivers that are shipped keep the rules of the kit."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from driverkit.contract import DriverContract
from driverkit.scripted import FakeDriver
from drivers.api import DriverContext
from tests.integration.test_readme import block

RACK = "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01"


def described(cards: int) -> str:
    """Two nodes, each with so many cards; they share a store."""
    card = {"inventory": {"VGPU": 8}}
    store = {"name": "nfs", "inventory": {"DISK_GB": 20480}, "aggregates": [RACK]}
    node = {
        "inventory": {"VCPU": 16},
        "traits": ["HW_CPU_X86_AVX2", "CUSTOM_SCRIPTED"],
        "aggregates": [RACK],
        "children": {f"gpu{n}": card for n in range(cards)},
        "sharing": {"nfs": store},
    }
    return json.dumps({"nodes": {"{host}": node, "host2": node}})


class TestFakeDriver(DriverContract):
    @pytest.fixture
    def script(self, tmp_path: Path) -> Path:
        path = tmp_path / "script.yaml"
        path.write_text(described(cards=2))
        return path

    @pytest.fixture
    def driver_config(self, script: Path) -> str:
        return f"[fake]\nscript = {script}\n"

    @pytest.fixture
    def make_driver(self, driver_context):
        return lambda: FakeDriver(driver_context)

    @pytest.fixture
    def lose_device(self, script: Path):
        return lambda: script.write_text(described(cards=1))

    @pytest.fixture
    def make_big_driver(self, tmp_path: Path):
        def make(devices: int) -> FakeDriver:
            path = tmp_path / f"{devices}.yaml"
            path.write_text(described(cards=devices // 2))
            conf = SimpleNamespace(fake=SimpleNamespace(script=str(path)))
            return FakeDriver(DriverContext("host1", tmp_path, conf))

        return make


class TestFakeDriverByDefault(DriverContract):
    """The script that is shipped: NUMA nodes, SR-IOV, shared storage."""

    @pytest.fixture
    def make_driver(self, driver_context):
        return lambda: FakeDriver(driver_context)


class TestTheReadmesDriver(DriverContract):
    """On the disks of this machine."""

    @pytest.fixture
    def make_driver(self, driver_context):
        names: dict = {}
        exec(block(".. code-block:: python"), names)
        return lambda: names["Disks"](driver_context)
