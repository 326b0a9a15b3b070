"""What a driver may answer by mistake, and how often it is asked at once."""

import importlib
import re
import threading
from asyncio import CancelledError
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

import pytest

from drivers.abilities import Timed
from drivers.api import ComputeDriver, DriverContext
from drivers.deadline import DriverHangs
from drivers.errors import DriverError, DriverFault, ReshapeNeeded
from drivers.loaded import LoadedDriver
from reportclient.plain_text import error_text
from reportclient.provider_tree import ProviderTree
from tests.agents import Idle


class Interrupts(Exception):
    """Ends the program that wants its text."""

    def __str__(self) -> str:
        raise CancelledError("no")


UUID = "9d6ba763-8e93-5284-b069-776c52a0868f"


class Answers(Idle):
    """The answer to every question is that for the nodes."""

    get_nodenames_by_uuid = Idle.get_available_nodes

    def degraded(self, node: str) -> Any:
        return self.get_available_nodes()

    def guests(self, node: str) -> Any:
        return self.get_available_nodes()


def loaded(answer: Any = None, error: BaseException | None = None) -> LoadedDriver:
    return LoadedDriver.from_driver("mine", Answers(answer, error))


@pytest.mark.parametrize("answer", ["a", ["a"], 5, [None], ValueError("a"), SystemExit(1)])
def test_guests_are_unknown_if_the_answer_is_no_list_of_uuids(answer: Any) -> None:
    error = answer if isinstance(answer, BaseException) else None
    with pytest.raises(DriverError):
        loaded(answer, error).guests("a")
    assert loaded([UUID.upper()]).guests("a") == {UUID}
    assert LoadedDriver.from_driver("mine", Idle()).guests("a") == frozenset()


@pytest.mark.parametrize("answer", [["a"], ("a", "b"), [], dict.fromkeys("ab"), iter(["a"])])
def test_names_of_nodes_are_taken(answer: Any) -> None:
    assert loaded(answer).nodes() in (["a"], ["a", "b"], [])


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("host1", ", not 'host1'"),
        (None, ", not None"),
        (b"host1", ": 104 is none"),
        (["a", None], ": None is none"),
        (["a", ""], ": '' is none"),
        ([["a"]], ": ['a'] is none"),
        (["a", "b", "a"], ": 'a' is named twice"),
        (["a\udcff"], ": a provider's name has to be Unicode text, not 'a\\udcff'"),
        ("a" * 5000, ", not 'aaaaaaaaaaaa...aaaaaaaaaaaaa'"),
    ],
)
def test_what_can_not_be_names_of_nodes_is_refused(answer: Any, said: str) -> None:
    with pytest.raises(DriverError) as caught:
        loaded(answer).nodes()
    call = "get_available_nodes() has to return a list of names"
    assert str(caught.value).startswith(call + said)


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (None, ", not None"),
        (["a"], r", not \['a'\]"),
        ({"no uuid": "a"}, ": node: 'no uuid' is not a UUID"),
        ({None: "a"}, ": node: None is not a UUID"),
        ({UUID: None}, ": a provider's name has to be a non-empty text, not None"),
        ({UUID: "a", UUID[:-1] + "0": "a"}, ": 'a' has two UUIDs"),
        ({UUID: "a", UUID.upper(): "b"}, f": 'a' and 'b' have one UUID, {UUID}"),
    ],
)
def test_what_can_not_be_uuids_is_refused(answer: Any, said: str) -> None:
    call = r"get_nodenames_by_uuid\(\) has to return {uuid: nodename}"
    with pytest.raises(DriverError, match=f"^{call}{said}"):
        loaded(answer).node_uuids()


def test_uuids_that_are_told_are_by_name_and_in_placements_spelling() -> None:
    assert loaded({UUID.upper(): "a"}).node_uuids() == {"a": UUID}


@pytest.mark.parametrize(
    ("one", "said"),
    [
        (loaded({"disk": "gone"}), {"disk": "gone"}),
        (
            loaded(None),
            {"driver mine": "degraded() failed: it has to return {part: reason}, not None"},
        ),
        (loaded({"disk": Interrupts()}), {"driver mine": "degraded() failed: CancelledError: no"}),
        (loaded(error=SystemExit(3)), {"driver mine": "degraded() failed: SystemExit: 3"}),
        (loaded(error=OSError("no")), {"driver mine": "degraded() failed: OSError: no"}),
    ],
)
def test_a_driver_that_can_not_say_how_it_is_is_degraded(one: LoadedDriver, said: Any) -> None:
    answer = {
        part: re.sub(r" \(.*, line .*", "", why) for part, why in one.degraded("host1").items()
    }
    assert answer == said


class Lazy(Mapping[Any, Any]):
    """A mapping whose reading calls a function."""

    def __init__(self, read: Callable[[], object]) -> None:
        self.read = read

    def __iter__(self) -> Any:
        yield self.read()

    def __getitem__(self, key: object) -> Any:
        return key

    def __len__(self) -> int:
        return 1


@pytest.mark.slow
@pytest.mark.parametrize("hangs", [False, True])
def test_what_a_driver_yields_is_read_in_a_thread_with_its_deadline(hangs: bool) -> None:
    class Capable(Answers):
        @property
        def capabilities(self) -> Any:
            return self.get_available_nodes()

    def read() -> None:
        if not hangs:
            raise CancelledError
        end.wait(60)

    asks: list[Callable[[LoadedDriver], object]] = [
        lambda one: one.guests("a"),
        LoadedDriver.nodes,
        LoadedDriver.node_uuids,
        lambda one: one.update_provider_tree(ProviderTree(), "a", None),
    ]
    end = threading.Event()
    for ask in asks:
        one = LoadedDriver.from_driver("mine", Capable(Lazy(read)), 0.3)
        with pytest.raises(DriverHangs if hangs else DriverFault):
            ask(one)
    end.set()


DISKS = """
import json

def read():
    return json.loads("no json")
"""
DRIVER = """
from drivers.api import ComputeDriver
from mine.disks import read

class Mine(ComputeDriver):
    def get_available_nodes(self):
        return read()

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        1 / 0
"""


def test_a_fault_of_a_driver_has_type_file_and_line_of_its_own_code(tmp_path, monkeypatch) -> None:
    """Not of the library that it called, nor of the agent that called it."""
    package = tmp_path / "mine"
    package.mkdir()
    (package / "__init__.py").write_text(DRIVER)
    (package / "disks.py").write_text(DISKS)
    monkeypatch.syspath_prepend(tmp_path)
    driver = importlib.import_module("mine").Mine(DriverContext("host1", None))
    one = LoadedDriver.from_driver("mine", driver)
    with pytest.raises(DriverFault) as caught:
        one.nodes()
    assert str(caught.value).startswith("JSONDecodeError: Expecting value")
    assert str(caught.value).endswith(" (mine/disks.py, line 5)")
    with pytest.raises(DriverFault) as caught:
        one.update_provider_tree(ProviderTree(), "a", None)
    assert str(caught.value) == "ZeroDivisionError: division by zero (mine/__init__.py, line 10)"
    assert isinstance(caught.value.__cause__, ZeroDivisionError), "its traceback is logged"


class Counts(Answers):
    """Notes how many are in it at the same time."""

    def __init__(self, expected: int) -> None:
        super().__init__(["a", "b"])
        self.inside, self.most = 0, 0
        self.met = threading.Barrier(expected)
        self.count = threading.Lock()

    def update_provider_tree(self, provider_tree, nodename, allocations=None) -> None:
        with self.count:
            self.inside += 1
            self.most = max(self.most, self.inside)
        try:
            self.met.wait(0.3)
        except threading.BrokenBarrierError:
            pass
        with self.count:
            self.inside -= 1


class Safe(Counts):
    thread_safe = True


@pytest.mark.parametrize(("kind", "most"), [(Counts, 1), (Safe, 2)])
def test_nodes_are_asked_about_one_by_one_unless_the_driver_is_thread_safe(kind, most) -> None:
    driver = kind(2)
    one = LoadedDriver.from_driver("mine", driver)
    threads = [
        threading.Thread(target=one.update_provider_tree, args=(ProviderTree(), name, None))
        for name in "ab"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert driver.most == most


@pytest.mark.parametrize("error", [None, ReshapeNeeded()])
def test_a_driver_edits_its_tree_only_until_it_returns(error: Exception | None) -> None:
    class KeepsTheTree(Answers):
        def update_provider_tree(self, provider_tree, nodename, allocations=None) -> None:
            self.tree = provider_tree
            self.tree.new_root("a", UUID)
            if error is not None:
                raise error

    driver, tree = KeepsTheTree(), ProviderTree()
    with nullcontext() if error is None else pytest.raises(ReshapeNeeded):
        LoadedDriver.from_driver("mine", driver).update_provider_tree(tree, "a", None)
    with pytest.raises(ValueError, match="only until it returns"):
        driver.tree.update_inventory("a", {"VCPU": {"total": 1}})
    assert tree.data("a").inventory == {}


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


@pytest.mark.parametrize(
    ("err", "said"),
    [
        (ValueError("no disk"), "no disk"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyError("x"), "KeyError: 'x'"),
        (Mute(), "Mute (its text can't be read)"),
        (Interrupts(), "Interrupts (its text can't be read)"),
        (ValueError("x" * 100_000), f"{'x' * 1000}... (100,000 characters in all)"),
    ],
)
def test_every_error_has_words(err: BaseException, said: str) -> None:
    assert error_text(err) == said


@pytest.mark.parametrize(
    "answer",
    [None, 7, {"a": "soon"}, {"a": float("nan"), "b": float("inf")}, OSError(), SystemExit(1)],
)
def test_times_that_make_no_sense_are_none(answer):
    class Timing(ComputeDriver):
        def get_available_nodes(self):
            return ["n"]

        def took(self):
            if isinstance(answer, BaseException):
                raise answer
            return answer

    loaded = LoadedDriver.from_driver("d", Timing(DriverContext("h", None)))
    assert loaded.can(Timed)
    assert loaded.took() == {}
