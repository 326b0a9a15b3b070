"""Ports for servers that keep theirs over a restart, or that are told theirs.

The kernel gives the ports of its ephemeral range to whoever connects anywhere: one
that was free a moment ago, or that a stopped server left, may be somebody's local end
now.  These are from below that range, and each worker of a parallel run has its own.
"""

import itertools
import os
import random
import socket

FIRST, LAST = 10000, 32000
WORKERS = 20

_numbers = itertools.count(random.randrange(LAST))  # other test runs begin elsewhere


def free_port() -> int:
    """A port of 127.0.0.1 that nobody has, and that nobody else of this run will choose."""
    worker = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    share = (LAST - FIRST) // WORKERS
    start = FIRST + worker % WORKERS * share
    for number in itertools.islice(_numbers, share):
        port = start + number % share
        if _is_free(port):
            return port
    raise RuntimeError(f"no port from {start} to {start + share} is free")


def _is_free(port: int) -> bool:
    with socket.socket() as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
