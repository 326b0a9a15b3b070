"""What tools/lab/talk.py makes of the lab's shell and of QEMU's monitor."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

TALK = Path(__file__).parents[2] / "tools" / "lab" / "talk.py"
Serve = Callable[[Callable[[socket.socket], None]], str]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """A socket whose first client is served by a function; its path."""
    listener = socket.socket(socket.AF_UNIX)
    threads: list[threading.Thread] = []

    def started(once: Callable[[socket.socket], None]) -> str:
        listener.bind(str(tmp_path / "socket"))
        listener.listen(1)
        threads.append(threading.Thread(target=lambda: once(listener.accept()[0]), daemon=True))
        threads[-1].start()
        return str(tmp_path / "socket")

    yield started
    listener.close()
    for thread in threads:
        thread.join(30)


def talk(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TALK, *words], capture_output=True, text=True, timeout=300, check=False
    )


def a_shell(client: socket.socket) -> None:
    """A real one behind the socket, with something left over from a caller who went away."""
    client.sendall(b"left over\n1234567890abcdef 0\n")
    with subprocess.Popen(["sh"], stdin=client, stdout=client) as running:
        running.wait(30)
    client.close()


def test_only_what_the_command_says_is_passed_on_and_how_it_ends(serve):
    told = talk("shell", serve(a_shell), "echo one; printf two; exit 7")
    assert (told.stdout, told.returncode) == ("one\ntwo", 7)


def test_a_reader_who_has_enough_is_no_error(serve):
    path = serve(a_shell)
    reading, writing = os.pipe()
    os.close(reading)
    told = subprocess.run(
        [sys.executable, TALK, "shell", path, "echo one; echo two"],
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=300,
        check=False,
    )
    os.close(writing)
    assert (told.returncode, told.stderr) == (0, b"")


def monitor(*plugged: str, error: str = "", busy: int = 0) -> Callable[[socket.socket], None]:
    """A QEMU that has devices with these ids."""

    def once(client: socket.socket) -> None:
        with client, client.makefile("rw") as stream:
            stream.write('{"QMP": {}}\n')
            stream.flush()
            refusals = busy
            for line in stream:
                command = json.loads(line)["execute"]
                answer: dict[str, object] = {"return": [{"name": name} for name in plugged]}
                if error and command == "device_add":
                    answer = {"error": {"desc": error}}
                if refusals and command == "device_del":
                    answer = {"error": {"desc": "Hot-unplug failed: guest is busy (power)"}}
                    refusals -= 1
                stream.write('{"event": "SOMETHING"}\n' + json.dumps(answer) + "\n")
                if command == "device_del" and "return" in answer:
                    stream.write('{"event": "DEVICE_DELETED"}\n')
                stream.flush()

    return once


@pytest.mark.parametrize(
    ("plugged", "wish", "code"),
    [((), "plug", 0), (("plugged",), "plug", 3), (("plugged",), "unplug", 0), ((), "unplug", 3)],
)
def test_a_card_is_plugged_once(serve, plugged, wish, code):
    assert talk("qmp", serve(monitor(*plugged)), wish).returncode == code


def test_a_card_that_was_just_plugged_in_is_taken_out_when_it_can_be(serve):
    assert talk("qmp", serve(monitor("plugged", busy=2)), "unplug").returncode == 0


def test_what_qemu_refuses_is_told_in_its_words(serve):
    told = talk("qmp", serve(monitor(error="the bus is full")), "plug")
    assert told.returncode == 1
    assert re.search(r"^error: plug: device_add: the bus is full$", told.stderr, re.M)


def test_a_lab_that_is_not_there_is_an_error(tmp_path):
    told = talk("shell", str(tmp_path / "socket"), "true")
    assert told.returncode == 1
    assert told.stderr.startswith("error: true: ")
