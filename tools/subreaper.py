#!/usr/bin/env python3
"""Run a daemon, and end all of its child processes when it ends: ``subreaper.py COMMAND [ARG…]``.

libvirtd leaves QEMU probes, guests and dnsmasq behind as orphans.  If PID 1 reaps them late,
they stay as zombies, and libvirt waits for them: one second becomes twelve.  Here orphans
become children of this process, which reaps them at once.  SIGTERM and SIGINT end the daemon
and then all of its remaining descendants.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from pathlib import Path

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 5.0


def main(command: list[str]) -> int:
    """Run a command until it ends, and return its exit status (128 + n for signal n)."""
    if not command:
        sys.stderr.write("usage: subreaper.py COMMAND [ARG…]\n")
        return 2
    _prctl(PR_SET_CHILD_SUBREAPER, 1)
    parent = os.getpid()
    daemon = os.fork()
    if daemon == 0:
        _become(command, parent)
    for signum in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(signum, lambda number, _frame: _end(daemon, number))
    status = _wait_for(daemon)
    _end_children()
    return status if status >= 0 else 128 - status


def _become(command: list[str], parent: int) -> None:
    """In the child process: have SIGTERM sent when the parent ends, then execute the daemon."""
    _prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        os._exit(1)
    try:
        os.execvp(command[0], command)  # noqa: S606  # no shell is wanted
    except OSError as err:
        sys.stderr.write(f"subreaper: {command[0]}: {err.strerror}\n")
        os._exit(127)


def _end(daemon: int, signum: int) -> None:
    """Send a signal to the daemon, and SIGCONT in case it is stopped."""
    _send(daemon, signum)
    _send(daemon, signal.SIGCONT)


def _wait_for(daemon: int) -> int:
    """Reap child processes until the daemon ends; return its exit status, or minus the signal."""
    while True:
        pid, status = os.wait()
        if pid == daemon:
            return os.waitstatus_to_exitcode(status)


def _end_children() -> None:
    """Send SIGTERM, later SIGKILL, to all remaining child processes until none is left."""
    kill_at = time.monotonic() + GRACE_SECONDS
    while True:
        late = time.monotonic() > kill_at
        for pid in _children():
            _send(pid, signal.SIGKILL if late else signal.SIGTERM)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.05)


def _children() -> list[int]:
    tasks = Path("/proc/self/task").glob("*/children")
    return [int(pid) for task in tasks for pid in task.read_text().split()]


def _send(pid: int, signum: int) -> None:
    try:
        os.kill(pid, signum)
    except ProcessLookupError:
        return


def _prctl(option: int, value: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(option, value, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
