"""Each call of a driver has a deadline; what hangs or misbehaves is told with its name."""

import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from agent.service import Service
from drivers.api import ComputeDriver, DriverContext, DriverError, ReshapeNeeded
from drivers.deadline import Calls
from drivers.errors import DriverNotReady
from drivers.loaded import LoadedDriver
from tests.agents import Agent
from tests.stranger import FakePlacement
from tests.unit.test_nodes import OWN, service_of
from tests.waiting import eventually

SOON = 2.0


@pytest.fixture
def for_ever() -> Iterator[threading.Event]:
    """Set at the end: threads of a test do not outlive it."""
    event = threading.Event()
    yield event
    event.set()


class Hanging(ComputeDriver):
    """Hangs in one method, as long as a test wants."""

    def __init__(self, method: str, until: threading.Event, nodes: tuple[str, ...] = ("a",)):
        super().__init__(DriverContext("host1", None))
        self.method, self.until, self.nodes, self.asked = method, until, nodes, 0

    def _at(self, method: str) -> None:
        self.asked += 1
        if method == self.method:
            self.until.wait()

    def init_host(self, host: str) -> None:
        self._at("init_host")

    def cleanup_host(self, host: str) -> None:
        self._at("cleanup_host")

    def get_available_nodes(self) -> Any:
        self._at("get_available_nodes")
        return list(self.nodes)

    def update_provider_tree(self, provider_tree, nodename, allocations=None) -> None:
        self._at("update_provider_tree")
        provider_tree.update_inventory(nodename, {"VCPU": {"total": 2}})

    def degraded(self, node: str) -> dict[str, str]:
        self._at("degraded")
        return {}


def service_with(driver: ComputeDriver) -> Service:
    service = service_of(driver)
    service.nodes.breaker.api = FakePlacement()
    service.nodes.drivers = [LoadedDriver.from_driver("mine", driver, SOON)]
    return service


def told(service: Service) -> str:
    said: list[str] = []
    service.listeners.append(lambda reports: said.extend(str(r.texts()) for r in reports))
    service.period()
    return " ".join(said)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["get_available_nodes", "update_provider_tree", "degraded"])
@pytest.mark.parametrize("nodes", [("a",), ("a", "b")])
def test_a_driver_that_hangs_in_the_first_period_is_named(
    for_ever: threading.Event, method: str, nodes: tuple[str, ...]
) -> None:
    said = told(service_with(Hanging(method, for_ever, nodes)))
    assert "driver mine: " in said and f"{method}" in said
    assert "has not returned within 2 s ([compute] driver_timeout)" in said


@pytest.mark.slow
def test_a_driver_that_hangs_at_its_start_may_be_started_again(for_ever: threading.Event) -> None:
    service = service_with(Hanging("init_host", for_ever))
    with pytest.raises(
        DriverNotReady, match="driver mine could not start: init_host has not returned"
    ):
        service.open()
    service.close()  # returns


@pytest.mark.slow
def test_a_start_that_goes_on_hanging_is_logged_once(for_ever: threading.Event, caplog) -> None:
    service = service_with(Hanging("init_host", for_ever))
    (loaded,) = service.nodes.drivers
    with pytest.raises(DriverNotReady) as caught:
        service.open()
    loaded.opening.failed = caught.value
    for _ in range(3):
        service.period()
    assert len(caplog.messages) == 1, caplog.messages
    assert "get_available_nodes was not called: still waiting for an earlier" in caplog.text
    service.close()
    assert "mine: cleanup_host failed: cleanup_host was not called: still waiting" in caplog.text


@pytest.mark.slow
def test_what_hangs_is_asked_nothing_more_until_it_has_returned(for_ever: threading.Event) -> None:
    driver = Hanging("update_provider_tree", for_ever)
    service = service_with(driver)
    told(service)
    asked = driver.asked
    assert "update_provider_tree(a) has not returned for" in told(service)
    assert driver.asked == asked
    for_ever.set()
    (loaded,) = service.nodes.drivers
    eventually(lambda: not loaded.calls.now)
    assert service.period() is True


@pytest.mark.parametrize("error", [KeyboardInterrupt("why"), GeneratorExit("why")])
def test_what_would_end_a_program_is_the_drivers_mistake(error: BaseException) -> None:
    driver = Hanging("", threading.Event())

    def raises(*_: Any) -> None:
        raise error

    driver.update_provider_tree = raises  # type: ignore[method-assign]
    said = told(service_with(driver))
    assert (
        f"driver mine: {type(error).__name__}: why (" in said
        and "test_driver_calls.py, line" in said
    )


@pytest.mark.parametrize("thread_safe", [False, True])
def test_degraded_and_took_come_from_one_thread_at_a_time(thread_safe: bool) -> None:
    calls, inside, most = Calls(60.0, thread_safe=thread_safe), [], []

    def asked() -> None:
        inside.append(1)
        most.append(len(inside))
        inside.pop()

    threads = [
        threading.Thread(target=lambda: [calls("degraded", asked) for _ in range(50)])
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert max(most) == 1


def test_threads_end_with_the_driver() -> None:
    before = threading.active_count()
    calls = Calls()
    assert calls("took", lambda: 1) == 1
    del calls
    eventually(lambda: threading.active_count() <= before)


async def coroutine(self: Any, *_: Any) -> None:
    """Nothing."""


def test_a_coroutine_that_comes_from_a_plain_method_is_told() -> None:
    with pytest.raises(DriverError, match="get_available_nodes is `async def`"):
        Calls()("get_available_nodes", lambda: coroutine(None))


@pytest.mark.parametrize("method", ["update_traits", "add_traits"])
@pytest.mark.parametrize("wrong", [[["CUSTOM_A", "CUSTOM_B"]], [{"CUSTOM_A": 1}]])
def test_traits_that_are_no_names_are_told_with_their_provider(method: str, wrong: Any) -> None:
    driver = Hanging("", threading.Event())

    def update(tree: Any, node: str, _: Any = None) -> None:
        getattr(tree, method)(node, *(wrong if method == "add_traits" else [wrong]))

    driver.update_provider_tree = update  # type: ignore[method-assign]
    said = told(service_with(driver))
    assert (
        "driver mine: ValueError: traits of provider a: a list or a set of names is needed, not"
        in said
    )


BY_NAME = {"allocations": {"a_gpu": {"resources": {"VGPU": 1}}}}
GARBAGE = [None, 7, {}, {"allocations": 7}, {"allocations": {"p": None}}, {"allocations": {7: {}}}]
NO_CLASS = {"allocations": {OWN: {"resources": {None: 1, "VGPU": 1}}}}
GARBAGE += [BY_NAME, NO_CLASS]


@pytest.mark.parametrize("garbage", GARBAGE)
def test_a_reshape_with_garbage_in_it_is_told_with_the_driver(garbage: Any) -> None:
    class Reshapes(Hanging):
        def update_provider_tree(self, provider_tree, nodename, allocations=None) -> None:
            if allocations is None:
                raise ReshapeNeeded
            allocations["consumer1"] = garbage

    placement = FakePlacement()
    agent = Agent(placement, named={"mine": Reshapes("", threading.Event())}, root=OWN)
    report = agent.period(0.0)
    assert "consumer consumer1: {'allocations':" in str(report.driver_errors["mine"])
    assert "is needed, not" in str(report.driver_errors["mine"])


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # threads and fork, later Pythons say
@pytest.mark.parametrize(
    ("error", "code"),
    [(None, 0), (SystemExit(), 0), (SystemExit(7), 7), (SystemExit("why"), 1), (KeyError(), 1)],
)
def test_a_child_that_a_driver_forks_is_no_second_agent(
    error: BaseException | None, code: int
) -> None:
    """It would wait for the next question, with the lock of the state directory."""

    def forks() -> int:
        child = os.fork()
        if child:
            return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if error is not None:
            raise error
        return 99

    assert Calls(60.0)("update_provider_tree", forks) == code
