"""What libvirt tells decides what is asked anew, and who is woken."""

import itertools
import threading
from types import SimpleNamespace

import pytest

from drivers.errors import DriverNotReady
from drivers.libvirt.connection.events import CONNECTION, DEVICES, GUESTS, POOLS, Events
from drivers.libvirt.facts.fact import MAX_CACHE_AGE, Sources
from tests.unit.libvirt.fake_binding import FakeLibvirtError
from tests.waiting import eventually


class Woken:
    def __init__(self) -> None:
        self.times = 0
        self._once = threading.Event()

    def __call__(self) -> None:
        self.times += 1
        self._once.set()

    def soon(self) -> bool:
        return self._once.wait(60)


@pytest.fixture
def woken():
    return Woken()


@pytest.fixture
def host(fake_host):
    return fake_host.connection()


def test_many_events_together_wake_once(woken):
    events = Events(gather=0.2)
    events.opened([DEVICES])
    events.listen(woken)
    for _ in range(50):
        events.changed(DEVICES)
    assert woken.soon()
    assert woken.times == 1
    events.changed(DEVICES)
    eventually(lambda: woken.times == 2)


def is_gathering() -> bool:
    """Whether somebody will be woken."""
    return any(one.name == "libvirt-gather" for one in threading.enumerate())


def test_nobody_is_woken_after_the_end_nor_by_the_first_connection(woken):
    events = Events(gather=0.0)
    events.listen(woken)
    events.opened([DEVICES])
    assert not is_gathering()
    events.stop()
    events.changed(DEVICES)
    assert not is_gathering() and woken.times == 0


def test_a_topic_counts_only_while_somebody_would_tell():
    events = Events()
    assert events.count(POOLS) is None
    events.opened([POOLS])
    first = events.count(POOLS)
    assert first is not None and events.count(DEVICES) is None
    events.changed(POOLS)
    assert events.count(POOLS) != first
    events.closed()
    assert events.count(POOLS) is None and events.count(CONNECTION) is None


def test_what_was_missed_while_nobody_told_is_asked_for_again():
    events = Events()
    events.opened([POOLS])
    before = events.count(POOLS), events.count(CONNECTION)
    events.closed()
    events.opened([POOLS])
    after = events.count(POOLS), events.count(CONNECTION)
    assert before[0] != after[0] and before[1] != after[1]


@pytest.mark.parametrize(
    ("kind", "event", "more", "topic"),
    [
        ("nodeDevice", 0, (0, 0), DEVICES),
        ("nodeDevice", 1, (), DEVICES),
        ("storagePool", 0, (2, 0), POOLS),
        ("storagePool", 1, (), POOLS),
        ("domain", 0, (2, 0), GUESTS),
        ("domain", 19, ("hostdev0",), GUESTS),
    ],
)
def test_each_of_libvirts_events_changes_its_topic(host, binding, kind, event, more, topic):
    host.hostname()
    before = host.events.count(topic)
    binding.connections[0].happen(kind, event, *more)
    assert host.events.count(topic) == before + 1


def test_a_paused_guest_is_no_reason_to_look(host, binding, woken):
    host.hostname()
    host.events.listen(woken)
    before = host.events.count(GUESTS)
    binding.connections[0].happen("domain", 0, 3, 0)
    assert host.events.count(GUESTS) == before


def test_a_hypervisor_without_events_of_a_kind_has_the_others(host, binding):
    binding.refused["nodeDevice"] = FakeLibvirtError("not supported", 3)
    host.hostname()
    assert host.events.count(DEVICES) is None
    assert host.events.count(POOLS) is not None


def test_events_are_taken_back_before_the_connection_is_closed(host, binding):
    host.hostname()
    connection = binding.connections[0]
    assert connection.subscribed
    host.close()
    assert connection.subscribed == {} and connection.closed_by is not None


def test_a_lost_connection_wakes_and_a_new_one_does_again(host, binding, woken):
    host.hostname()
    host.events.listen(woken)
    connection = binding.connections[0]
    connection.on_close(connection, 1, None)
    assert woken.soon()
    binding.lose_connections()
    host.hostname()
    assert host.events.count(DEVICES) is not None
    eventually(lambda: woken.times == 2)


# -- sources


@pytest.fixture
def events():
    events = Events()
    events.opened([POOLS])
    return events


def test_what_events_cover_is_asked_for_once_until_one_comes(events):
    sources, asked = Sources(SimpleNamespace(events=events)), itertools.count(1).__next__
    assert [sources.fetch("pools", asked, until_event=POOLS) for _ in range(3)] == [1, 1, 1]
    events.changed(DEVICES)
    assert sources.fetch("pools", asked, until_event=POOLS) == 1
    events.changed(POOLS)
    assert sources.fetch("pools", asked, until_event=POOLS) == 2


def test_what_events_do_not_cover_is_asked_for_each_time(events):
    sources, asked = Sources(SimpleNamespace(events=events)), itertools.count(1).__next__
    assert [sources.fetch("devices", asked, until_event=DEVICES) for _ in range(2)] == [1, 2]
    assert [sources.fetch("memory", asked) for _ in range(2)] == [3, 4]


def test_events_may_get_lost_so_it_is_asked_again_at_a_slow_pace(events):
    now, asked = [0.0], itertools.count(1).__next__
    sources = Sources(SimpleNamespace(events=events), lambda: now[0])
    sources.fetch("pools", asked, until_event=POOLS)
    now[0] = MAX_CACHE_AGE - 1
    assert sources.fetch("pools", asked, until_event=POOLS) == 1
    now[0] = MAX_CACHE_AGE + 1
    assert sources.fetch("pools", asked, until_event=POOLS) == 2


def test_what_changes_while_it_is_asked_for_is_asked_for_again(events):
    sources, asked = Sources(SimpleNamespace(events=events)), itertools.count(1).__next__

    def disturbed() -> int:
        events.changed(POOLS)
        return asked()

    sources.fetch("pools", disturbed, until_event=POOLS)
    assert sources.fetch("pools", asked, until_event=POOLS) == 2


def test_a_source_that_fails_keeps_its_answer_and_is_asked_again(events):
    sources, asked = Sources(SimpleNamespace(events=events)), itertools.count(1).__next__
    sources.fetch("pools", asked, until_event=POOLS)
    events.changed(POOLS)

    def refuse() -> int:
        raise DriverNotReady("the pool hangs")

    assert sources.fetch("pools", refuse, until_event=POOLS) == 1
    assert sources.failed() == {"pools": "the pool hangs"}
    assert sources.fetch("pools", asked, until_event=POOLS) == 2
    assert sources.failed() == {}
