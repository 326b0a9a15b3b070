#!/usr/bin/env python3
"""Send commands to the lab's QEMU, or to the shell in the lab, over their sockets.

    talk.py qmp SOCKET plug|unplug|quit     returns when it is done
    talk.py shell SOCKET COMMAND            prints the command's output, exits with its exit code

Exit code 3: nothing to do, for example the card is already plugged in.  SECONDS is the timeout.
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
    """A client of QMP, QEMU's protocol: one JSON object a line, events in between."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def execute(self, command: str, **arguments: object) -> Any:
        """Execute a command and return QEMU's answer.

        :raises RuntimeError: the command failed; the message is QEMU's.
        """
        self._send({"execute": command, "arguments": arguments})
        for message in self._messages():
            if "error" in message:
                raise RuntimeError(f"{command}: {message['error']['desc']}")
            if "return" in message:
                return message["return"]
        return None

    def wait_for(self, event: str) -> None:
        """Wait until QEMU sends this event."""
        for message in self._messages():
            if message.get("event") == event:
                return

    def greet(self) -> None:
        """Start the protocol; needed before any other command."""
        self._stream.readline()
        self.execute("qmp_capabilities")

    def has_card(self) -> bool:
        """Whether the card is plugged in; also while it is being unplugged."""
        devices = self.execute("qom-list", path="/machine/peripheral")
        return any(device["name"] == CARD["id"] for device in devices)

    def _send(self, message: dict[str, object]) -> None:
        self._stream.write(json.dumps(message) + "\n")
        self._stream.flush()

    def _messages(self) -> Iterator[dict[str, Any]]:
        for line in self._stream:
            yield json.loads(line)
        raise EOFError("QEMU ended")


def qmp(stream: Any, action: str) -> int:
    """Plug the card in, unplug it, or end QEMU; return the exit code."""
    monitor = Monitor(stream)
    monitor.greet()
    if action == "quit":
        monitor.execute("quit")
        return 0
    if monitor.has_card() == (action == "plug"):
        return ALREADY
    if action == "plug":
        monitor.execute("device_add", **CARD)
    else:
        _unplug(monitor)
    return 0


def _unplug(monitor: Monitor) -> None:
    """Unplug the card and wait for the event; retry while the lab's kernel is busy with it."""
    give_up = time.monotonic() + SECONDS
    while True:
        try:
            monitor.execute("device_del", id=CARD["id"])
            break
        except RuntimeError as refused:
            if BUSY not in str(refused) or time.monotonic() > give_up:
                raise
        time.sleep(0.2)
    monitor.wait_for("DEVICE_DELETED")


def shell(stream: Any, command: str) -> int:
    """Run one command line in the lab, print its output, and return its exit code.

    Output of an earlier command, whose caller has gone, is skipped.
    """
    begin, end = secrets.token_hex(8), secrets.token_hex(8)
    # The shell in the lab joins the halves of each mark, so that an echo of the line has no mark.
    stream.write(f"\necho {_in_two(begin)}; ({command}) </dev/null; echo {_in_two(end)} $?\n")
    stream.flush()
    begun = False
    for line in stream:
        before, mark, status = line.rstrip("\r\n").partition(end)
        if mark:
            _print(before)
            return int(status)
        if begun:
            _print(f"{before}\n")
        begun = begun or begin in line
    raise EOFError("the lab ended")


def _print(text: str) -> None:
    try:
        sys.stdout.write(text)
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader, such as "| head", has ended; keep reading the output of the lab.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _in_two(mark: str) -> str:
    return f"'{mark[:8]}''{mark[8:]}'"


def main(kind: str, path: str, action: str) -> int:
    """Do what the command line asks for and return the exit code."""
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(SECONDS)
        try:
            connection.connect(path)
            with connection.makefile("rw", encoding="utf-8", errors="replace") as stream:
                return qmp(stream, action) if kind == "qmp" else shell(stream, action)
        except (OSError, EOFError, RuntimeError) as failed:
            sys.exit(f"error: {action}: {failed}")


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
