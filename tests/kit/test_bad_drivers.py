"""The kit catches a driver for each way to break a rule, with words that help."""

from __future__ import annotations

import inspect
import logging
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from uuid import UUID

import pytest

from driverkit.judges.scale import steady_memory
from driverkit.stage import Stage
from driverkit.testing import RULES, DriverContract
from driverkit.testing.contract import RuleFailed
from reportclient.testing.fake_placement import FakePlacement
from tests.kit.bad import BAD, Bad, backend_of
from tests.kit.good import Backend, GoodDriver, old_shape


def rule_tests(rule: str, fixtures: tuple[str, ...]) -> list:
    """The tests of a rule that need these fixtures, or any if they need none."""
    found = [
        test
        for test in vars(DriverContract).values()
        if hasattr(test, "driver_rule") and test.driver_rule.name == rule
    ]
    return [test for test in found if fixtures_of(test) == fixtures]


def fixtures_of(test) -> tuple[str, ...]:
    return tuple(inspect.signature(test).parameters)[2:]


def failure_of(rule: str, stage: Stage, fixtures: dict) -> RuleFailed:
    [test] = rule_tests(rule, tuple(fixtures))
    with pytest.raises(RuleFailed) as caught:
        test(DriverContract(), stage, **fixtures)
    return caught.value


@pytest.mark.parametrize("bad", BAD, ids=str)
def test_a_bad_driver_is_caught(bad: Bad, driver_context) -> None:
    backend = backend_of(bad)
    stage = Stage(
        FakePlacement(),
        driver_context,
        lambda: bad.driver(driver_context, backend),
        3.0 if bad.driver.__name__ == "Hangs" else 60.0,
        back_within=0.3,
    )
    hooks = {
        "reshape_case": old_shape(),
        "lose_backend": backend.lose,
        "lose_device": lambda: backend.cards.pop(0),
        "make_big_driver": lambda n: bad.driver(driver_context, Backend.with_cards(n)),
    }
    failure = failure_of(bad.rule, stage, {name: hooks[name] for name in bad.fixtures})
    stage.close()
    rule, text = RULES[bad.rule], str(failure)
    missing = [words for words in bad.words if words not in failure.seen + rule.mend]
    assert not missing, text
    assert failure.verdict == "broken"
    flat = " ".join(text.split())
    assert flat.startswith(f"The driver breaks the rule {rule.name}: {rule.says}")
    assert f"Why: {rule.why}" in flat and f"Mend: {rule.mend}" in flat
    insides = [part for part in ("driverkit/testing/", "driverkit/") if part in failure.seen]
    assert not insides, text


def test_there_is_a_bad_driver_and_a_test_for_each_rule() -> None:
    tested = {
        (test.driver_rule.name, fixtures_of(test))
        for test in vars(DriverContract).values()
        if hasattr(test, "driver_rule")
    }
    assert {rule for rule, _ in tested} == set(RULES)
    assert {(bad.rule, bad.fixtures) for bad in BAD} == tested


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


class TestGoodDriverThatShares(TestGoodDriver):
    @pytest.fixture
    def make_driver(self, driver_context, backend):
        return lambda: SharesFromTheReshapeOn(driver_context, backend)

    @pytest.fixture
    def make_big_driver(self):
        return None


class GoodInThreads(GoodDriver):
    thread_safe = True


class TestGoodDriverOfManyNodes(DriverContract):
    @pytest.fixture
    def make_driver(self, driver_context):
        backend = Backend(nodes=[f"node{n}" for n in range(12)])
        return lambda: GoodInThreads(driver_context, backend)


def test_a_driver_that_says_something_in_each_period_leaves_no_memory(driver_context) -> None:
    class Talks(GoodDriver):
        def update_provider_tree(self, provider_tree, nodename, allocations=None):
            super().update_provider_tree(provider_tree, nodename, allocations)
            logging.getLogger("talks").warning("%s", "x" * 3000)
            warnings.warn("y" * 3000, stacklevel=1)

    stage = Stage(FakePlacement(), driver_context, lambda: Talks(driver_context, Backend()))
    with warnings.catch_warnings(record=True):  # as pytest does
        steady_memory(stage)
    stage.close()


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


def test_the_time_of_the_placement_in_memory_grows_with_the_providers_and_not_faster() -> None:
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
