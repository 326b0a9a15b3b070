"""Tests that run at the same time: what is shared, what is taken in turns, what comes first."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.servers.ports import FIRST, LAST, free_port
from tests.sharing import LONGEST_FIRST, TESTS, OneAtATime, pytest_collection_modifyitems


@dataclass(frozen=True)
class Item:
    """A test that names something, or nothing."""

    names: str | None = None
    path: Path = TESTS / "test_x.py"

    def get_closest_marker(self, marker: str) -> pytest.Mark | None:
        if self.names is None or marker != "one_at_a_time":
            return None
        return pytest.Mark(marker, (self.names,), {}, _ispytest=True)


def begun(turns: OneAtATime, item: Item, nextitem: Item | None = None) -> Iterator[None]:
    running = turns.pytest_runtest_protocol(item, nextitem)  # type: ignore[arg-type]
    next(running)
    return running


def end(running: Iterator[None]) -> None:
    assert list(running) == []


@pytest.fixture
def name(tmp_path: Path) -> str:
    """One that no other run of this test uses."""
    return f"unit-{tmp_path.parent.name}-{tmp_path.name}"


@pytest.fixture
def other(name: str) -> Iterator[tuple[threading.Event, threading.Thread]]:
    """Another worker that wants the same, once started; its event tells that it has it."""
    has = threading.Event()

    def run() -> None:
        running = begun(OneAtATime(), Item(name))
        has.set()
        end(running)

    thread = threading.Thread(target=run, daemon=True)
    yield has, thread
    if thread.ident is not None:
        thread.join(60)


def test_a_test_waits_for_another_that_names_the_same(name, other):
    has, thread = other
    running = begun(OneAtATime(), Item(name))
    thread.start()
    assert not has.wait(0.2)
    end(running)
    assert has.wait(60)


def test_it_is_kept_for_the_next_test_that_names_it(name, other):
    has, thread = other
    turns = OneAtATime()
    end(begun(turns, Item(name), Item(name)))
    thread.start()
    assert not has.wait(0.2)
    end(begun(turns, Item(name), Item()))
    assert has.wait(60)


def test_other_names_and_tests_without_a_name_do_not_wait(name):
    first = begun(OneAtATime(), Item(name))
    for item in (Item(f"{name}-b"), Item()):
        end(begun(OneAtATime(), item))
    end(first)


def test_long_files_come_first_and_the_tests_of_a_file_keep_their_order():
    paths = ("unit/test_loop.py", "integration/test_kill.py", LONGEST_FIRST[0], "new/test_y.py")
    items = [Item(str(n), TESTS / path) for path in paths for n in range(2)]
    pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    found = [(item.path.relative_to(TESTS).as_posix(), item.names) for item in items]
    expected = ("new/test_y.py", LONGEST_FIRST[0], "integration/test_kill.py", "unit/test_loop.py")
    assert found == [(path, str(n)) for path in expected for n in range(2)]


@pytest.mark.parametrize("name", LONGEST_FIRST)
def test_what_comes_first_is_there(name):
    assert (TESTS / name).exists()


def test_ports_are_not_given_out_twice():
    ports = [free_port() for _ in range(50)]
    assert len(set(ports)) == 50
    assert all(FIRST <= port < LAST for port in ports)
