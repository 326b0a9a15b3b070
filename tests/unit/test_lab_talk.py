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


def talk(*words: str, output: int = subprocess.PIPE) -> subprocess.CompletedProcess[str]:
    errors = {"stderr": subprocess.PIPE, "text": True, "timeout": 300, "check": False}
    return subprocess.run([sys.executable, TALK, *words], stdout=output, **errors)


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
    reading, writing = os.pipe()
    os.close(reading)
    told = talk("shell", serve(a_shell), "echo one; echo two", output=writing)
    os.close(writing)
    assert (told.returncode, told.stderr) == (0, "")


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
    ("qemu", "wish", "code"),
    [
        (monitor(), "plug", 0),
        (monitor("plugged"), "plug", 3),
        (monitor("plugged"), "unplug", 0),
        (monitor("plugged", busy=2), "unplug", 0),
        (monitor(), "unplug", 3),
    ],
)
def test_a_card_is_plugged_once_and_taken_out_once_it_can_be(serve, qemu, wish, code):
    assert talk("qmp", serve(qemu), wish).returncode == code


def test_what_qemu_refuses_is_told_in_its_words_and_a_lab_that_is_gone(serve):
    told = talk("qmp", serve(monitor(error="the bus is full")), "plug")
    assert told.returncode == 1
    assert re.search(r"^error: plug: device_add: the bus is full$", told.stderr, re.M)
    told = talk("shell", "/no/such/socket", "true")
    assert told.returncode == 1 and told.stderr.startswith("error: true: ")
