"""The contract catches a driver for each way to break a rule, with words that help."""

import inspect
import logging
import threading
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import ClassVar
from uuid import UUID

import pytest

from driverkit.contract import DriverContract
from driverkit.evidence import is_unique
from driverkit.host import context, starting
from drivers.api import DriverNotReady
from tests.kit.bad import BAD, Bad
from tests.kit.good import OLD_ROOT, Backend, GoodDriver, old_shape
from tests.stranger import FakePlacement

SOON = "[compute]\ndriver_timeout = 3\n"


class Impatient(DriverContract):
    well_within = 0.3


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: bad.driver.__name__)
def test_a_bad_driver_is_caught(bad: Bad, tmp_path: Path) -> None:
    backend = Backend(nodes=list(bad.nodes))
    given = context(tmp_path, config=SOON if bad.driver.__name__.startswith("Hangs") else "")

    def make_driver() -> GoodDriver:
        return bad.driver(given, backend)

    fixtures = {
        "make_driver": make_driver,
        "driver_context": given,
        "reshape_case": old_shape(),
        "lose_backend": backend.lose,
        "lose_device": lambda: backend.cards.pop(0),
        "make_big_driver": lambda n: bad.driver(given, Backend.with_cards(n)),
    }
    test = getattr(Impatient(), bad.test)
    with (
        starting(make_driver, given, FakePlacement(), Impatient.well_within) as start,
        pytest.raises(BaseException) as caught,
    ):
        fixtures["start"] = start
        test(**{name: fixtures[name] for name in inspect.signature(test).parameters})
    text = f"{caught.type.__name__}: {caught.value}"
    assert [words for words in bad.words if words not in text] == [], text


def test_there_is_a_bad_driver_for_each_test() -> None:
    tests = {name for name in vars(DriverContract) if name.startswith("test_")}
    assert {bad.test for bad in BAD} == tests


class TestGoodDriver(DriverContract):
    @pytest.fixture
    def backend(self):
        return Backend()

    @pytest.fixture
    def make_driver(self, driver_context, backend):
        return lambda: GoodDriver(driver_context, backend)

    @pytest.fixture
    def lose_backend(self, backend):
        return backend.lose

    @pytest.fixture
    def lose_device(self, backend):
        return lambda: backend.cards.pop()

    @pytest.fixture
    def make_big_driver(self, driver_context):
        return lambda devices: GoodDriver(driver_context, Backend.with_cards(devices))

    @pytest.fixture
    def reshape_case(self):
        return old_shape()


class WarmsUp(GoodDriver):
    """A thread reads the cards a while after the start, and ends with the driver."""

    def __init__(self, context, backend):
        super().__init__(context, backend)
        self.read = threading.Event()
        self.reader = threading.Timer(0.3, self.read.set)

    def init_host(self, host):
        self.reader.start()

    def cleanup_host(self, host):
        self.reader.cancel()

    def cards(self, nodename):
        if not self.read.is_set():
            raise DriverNotReady("no card was read yet")
        return super().cards(nodename)

    def degraded(self, node):
        return {}

    def guests(self, node):
        return iter([OLD_ROOT.upper()])

    def took(self):
        return {"cards": 0.3}

    def watch(self, notify):
        notify(None, "host1")


class TestGoodDriverThatWarmsUp(TestGoodDriver):
    @pytest.fixture
    def make_driver(self, driver_context, backend):
        return lambda: WarmsUp(driver_context, backend)

    @pytest.fixture
    def make_big_driver(self, driver_context):
        return lambda devices: WarmsUp(driver_context, Backend.with_cards(devices))


class IsNeverReady(GoodDriver):
    calls: ClassVar[list[str]] = []

    def cards(self, nodename):
        self.calls.append(nodename)
        raise DriverNotReady("no card")


def test_a_driver_that_is_never_ready_is_waited_for_once(tmp_path: Path) -> None:
    given, backend = context(tmp_path), Backend()
    make = partial(IsNeverReady, given, backend)
    calls: list[int] = []
    with starting(make, given, FakePlacement(), Impatient.well_within) as start:
        for _ in range(3):
            IsNeverReady.calls.clear()
            with pytest.raises(DriverNotReady, match="^no card$"):
                start().period()
            calls.append(len(IsNeverReady.calls))
    first, *others = calls
    assert first > 1 and others == [1, 1]


POOL = "7d0f5f52-3f0e-4d5b-8a38-1f6d4c1e9a77"


class SharesFromTheReshapeOn(GoodDriver):
    """Makes a sharing provider in the very period in which its cards get their inventory."""

    def report(self, tree, node, cards, allocations):
        super().report(tree, node, cards, allocations)
        if not tree.exists(POOL):
            tree.new_root(f"{node}_pool", POOL)
        tree.update_inventory(POOL, {"DISK_GB": {"total": 100}})
        tree.add_traits(POOL, "MISC_SHARES_VIA_AGGREGATE")
        for provider in (POOL, node):
            tree.add_aggregates(provider, POOL)


class Talks(SharesFromTheReshapeOn):
    """Logs and warns in each period: what pytest keeps of it is no leak."""

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        super().update_provider_tree(provider_tree, nodename, allocations)
        logging.getLogger("talks").warning("%s", "x" * 3000)
        warnings.warn("y" * 3000, stacklevel=1)


@pytest.mark.filterwarnings("default")
class TestGoodDriverThatSharesAndTalks(TestGoodDriver):
    @pytest.fixture
    def make_driver(self, driver_context, backend):
        return lambda: Talks(driver_context, backend)


class GoodInThreads(GoodDriver):
    thread_safe = True


class TestGoodDriverOfManyNodes(DriverContract):
    @pytest.fixture
    def make_driver(self, driver_context):
        backend = Backend(nodes=[f"node{n}" for n in range(12)])
        return lambda: GoodInThreads(driver_context, backend)


UNIQUE = ["host1_0000:84:00.0", "gpu-of-HOST1", "nvme-S4EWNX0M123456", "52:54:00:12:34:56"]
UNIQUE += ["eui.0025385b61b0a2d1", "5cb3a1ba-7e31-4f6b-a6c1-9d4c5f6e7a01"]
UNIQUE += ["5cb3a1ba7e314f6ba6c19d4c5f6e7a01"]
COMMON = ["gpu0", "0000:84:00.0", "pci_0000_84_00_0", "accelerator12", "mlx5_core.sf.4", "numa-0"]


@pytest.mark.parametrize("name", [*UNIQUE, *COMMON])
def test_a_name_with_its_host_or_an_identifier_in_it_is_unique(name: str) -> None:
    owners = ("host1", "6a2d1c34-58b1-4a6d-9a5c-0f6a4d8f1e02")
    assert is_unique(name, owners) is (name in UNIQUE)


def seconds_in_memory(count: int) -> float:
    """The processor time in which so many providers come and go."""
    placement, uuids = FakePlacement(), [str(UUID(int=each)) for each in range(1, count + 1)]
    start = time.process_time()
    for uuid in uuids:
        parent = None if uuid == uuids[0] else uuids[0]
        body = {"name": uuid, "uuid": uuid, "parent_provider_uuid": parent}
        placement.request("POST", "/resource_providers", json=body)
    for uuid in reversed(uuids):
        placement.request("DELETE", f"/resource_providers/{uuid}")
    return time.process_time() - start


def test_the_time_of_the_placement_in_memory_grows_with_the_providers() -> None:
    few = seconds_in_memory(1000)
    assert seconds_in_memory(10_000) < 20 * few  # 10 times as many; it was 50 times the time


def test_the_placement_in_memory_answers_threads_that_write_at_once() -> None:
    placement = FakePlacement()

    def write(block: int) -> None:
        for each in range(block * 300 + 1, block * 300 + 301):
            uuid = str(UUID(int=each))
            placement.request("POST", "/resource_providers", json={"name": uuid, "uuid": uuid})
            placement.request("GET", f"/resource_providers/{uuid}/allocations")
            assert placement.request("GET", "/resource_providers")["resource_providers"]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(write, range(4))) == [None] * 4
