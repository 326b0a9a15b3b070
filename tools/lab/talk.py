#!/usr/bin/env python3
"""Talks with the lab's QEMU and with the shell in it, over their sockets.

    talk.py qmp SOCKET plug|unplug|quit     answers when it has happened
    talk.py shell SOCKET COMMAND            prints what the command says, ends as it ends

Exit code 3: what was asked for is so already.  Everything is bounded by SECONDS.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

SECONDS = 60.0
ALREADY = 3
BUSY = "guest is busy"
CARD = {"driver": "e1000e", "id": "plugged", "bus": "socket1", "mac": "52:54:00:1a:b0:01"}


class Monitor:
    """QEMU's machine protocol: one JSON object a line, events in between."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def ask(self, command: str, **arguments: object) -> Any:
        """What QEMU answers.

        :raises RuntimeError: with QEMU's own words.
        """
        self._send({"execute": command, "arguments": arguments})
        for message in self._messages():
            if "error" in message:
                raise RuntimeError(f"{command}: {message['error']['desc']}")
            if "return" in message:
                return message["return"]
        return None

    def wait_for(self, event: str) -> None:
        """Until QEMU tells of it."""
        for message in self._messages():
            if message.get("event") == event:
                return

    def greet(self) -> None:
        """What has to be said before anything else."""
        self._stream.readline()
        self.ask("qmp_capabilities")

    def has_card(self) -> bool:
        """Whether the card is in; one that is being taken out still is."""
        found = self.ask("qom-list", path="/machine/peripheral")
        return any(each["name"] == CARD["id"] for each in found)

    def _send(self, message: dict[str, object]) -> None:
        self._stream.write(json.dumps(message) + "\n")
        self._stream.flush()

    def _messages(self) -> Iterator[dict[str, Any]]:
        for line in self._stream:
            yield json.loads(line)
        raise EOFError("QEMU ended")


def qmp(stream: Any, wish: str) -> int:
    """Plug the card, unplug it and wait until the guest gave it up, or end QEMU."""
    monitor = Monitor(stream)
    monitor.greet()
    if wish == "quit":
        monitor.ask("quit")
        return 0
    if monitor.has_card() == (wish == "plug"):
        return ALREADY
    if wish == "plug":
        monitor.ask("device_add", **CARD)
    else:
        _unplug(monitor)
    return 0


def _unplug(monitor: Monitor) -> None:
    """Until the kernel of the lab has given the card up; one that it has just got is busy."""
    give_up = time.monotonic() + SECONDS
    while True:
        try:
            monitor.ask("device_del", id=CARD["id"])
            break
        except RuntimeError as refused:
            if BUSY not in str(refused) or time.monotonic() > give_up:
                raise
        time.sleep(0.2)
    monitor.wait_for("DEVICE_DELETED")


def shell(stream: Any, command: str) -> int:
    """Run one command line in the lab.

    What a command before it still has to say, whose caller has gone, is left out.
    """
    begin, end = secrets.token_hex(8), secrets.token_hex(8)
    # The marks are put together in the lab, so that an echo of the line is none.
    stream.write(f"\necho {_in_two(begin)}; ({command}) </dev/null; echo {_in_two(end)} $?\n")
    stream.flush()
    begun = False
    for line in stream:
        before, found, status = line.rstrip("\r\n").partition(end)
        if found:
            _say(before)
            return int(status)
        if begun:
            _say(f"{before}\n")
        begun = begun or begin in line
    raise EOFError("the lab ended")


def _say(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # "| head" has enough; the lab has still to be heard out.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_two(mark: str) -> str:
    return f"'{mark[:8]}''{mark[8:]}'"


def main(kind: str, path: str, wish: str) -> int:
    """As the words of the command line say; its exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        try:
            connection.connect(path)
            with connection.makefile("rw", encoding="utf-8", errors="replace") as stream:
                return qmp(stream, wish) if kind == "qmp" else shell(stream, wish)
        except (OSError, EOFError, RuntimeError) as failed:
            sys.exit(f"error: {wish}: {failed}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
