"""The watch over libvirt: changes are told once, in their order, whoever noticed them."""

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from drivers.errors import DriverNotReady
from drivers.libvirt.connection.host import Host, Watch
from drivers.libvirt.connection.session import Deadlines
from tests.unit.libvirt.fake_binding import FakeLibvirt, FakeLibvirtError
from tests.waiting import eventually


@pytest.fixture
def libvirt() -> FakeLibvirt:
    return FakeLibvirt()


@pytest.fixture
def host(libvirt: FakeLibvirt) -> Iterator[Host]:
    host = Host("test:///", libvirt, Deadlines(connect=2, call=2), Path("/"))
    yield host
    libvirt.release()
    host.close()


@pytest.fixture
def told(host: Host) -> list[str | None]:
    """What a watch has reported, from its first answer on."""
    told: list[str | None] = []
    host.watch(told.append)
    eventually(lambda: told)
    return told


@pytest.mark.slow
def test_a_libvirt_that_is_not_there_at_first(host, libvirt) -> None:
    libvirt.down = FakeLibvirtError("nobody listens", code=38)
    told: list[str | None] = []
    host.watch(told.append)
    eventually(lambda: told)
    libvirt.down = None
    eventually(lambda: len(told) == 2)
    assert "nobody listens" in told[0] and told[1] is None


@pytest.mark.slow
def test_libvirts_own_word_is_told_at_once_and_asked_after(host, libvirt, told) -> None:
    connection = libvirt.connections[-1]
    connection.alive = False
    connection.on_close(connection, 1, None)
    assert "libvirtd closed the connection" in told[1]
    eventually(lambda: len(told) == 3)
    assert told[2] is None and len(libvirt.connections) == 2


def test_a_connection_that_we_close_is_no_loss(host, libvirt, told) -> None:
    connection = libvirt.connections[-1]
    connection.on_close(connection, 3, None)
    assert told == [None]


@pytest.mark.slow
def test_a_call_that_hangs_is_a_loss(host, libvirt, told) -> None:
    libvirt.hang()
    with pytest.raises(DriverNotReady):
        host.hostname()
    assert "no answer within" in told[1]
    libvirt.release()
    eventually(lambda: len(told) == 3)


def test_an_error_is_an_answer(host, libvirt, told) -> None:
    libvirt.refused["getHostname"] = FakeLibvirtError("no")
    with pytest.raises(DriverNotReady):
        host.hostname()
    assert told == [None]


def test_a_change_is_told_once() -> None:
    told: list[str | None] = []
    watch = Watch(lambda: None, told.append)
    for _ in range(3):
        watch.lost("gone")
    for _ in range(3):
        watch.probe_once()
    watch.lost("gone again")
    assert told == ["gone", None, "gone again"]


def test_a_loss_during_the_question_is_not_overlooked() -> None:
    told: list[str | None] = []
    watch = Watch(lambda: watch.lost("gone"), told.append)
    watch.probe_once()
    assert told == ["gone"]


def test_after_the_end_nothing_is_told_and_its_thread_ends() -> None:
    told: list[str | None] = []
    watch = Watch(lambda: None, told.append, pause=0.01)
    before = set(threading.enumerate())
    watch.start()
    eventually(lambda: told)
    (thread,) = set(threading.enumerate()) - before
    watch.stop()
    thread.join(60)
    assert not thread.is_alive()
    watch.lost("gone")
    assert told == [None]


def test_the_callback_is_taken_back_when_the_connection_is_closed(host, libvirt) -> None:
    host.watch(lambda _: None)
    eventually(lambda: libvirt.connections and libvirt.connections[-1].on_close)
    host.close()
    assert libvirt.connections[-1].on_close is None
