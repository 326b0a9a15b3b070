"""What the private servers share: they start within a time or say why not, and they end."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Self

from tests.waiting import eventually


class Server:
    """A server as a context manager: one that does not come up is stopped."""

    def start(self) -> None:
        """Start it, on the same port and data as before, and wait until it answers."""
        raise NotImplementedError

    def stop(self) -> object:
        """End it and all that it started; nothing happens if it is not running."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def launched(
    command: Sequence[str], log: Path, mode: str = "ab", **options: Any
) -> subprocess.Popen[bytes]:
    """A process that writes all that it says into a file."""
    with log.open(mode) as out:
        more = {"stdin": subprocess.DEVNULL, **options}
        return subprocess.Popen(command, stdout=out, stderr=out, **more)


def completed(*command: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """A command to its end, whatever its code is, with what it printed."""
    more = {"timeout": 900, "capture_output": True, "encoding": "utf-8", **options}
    return subprocess.run(list(map(str, command)), **more)


def wait_for(
    ready: Callable[[], object],
    process: subprocess.Popen[bytes],
    said: Callable[[], str],
    seconds: float = 120.0,
) -> None:
    """Wait until ``ready``; what the process ``said`` explains why it does not come.

    :raises RuntimeError: the process ended, or the time is over.
    """
    give_up = time.monotonic() + seconds
    while not ready():
        ended = process.poll()
        if ended is not None or time.monotonic() > give_up:
            how = f"ended with {ended}" if ended is not None else f"is not ready after {seconds} s"
            raise RuntimeError(f"{process.args[0]} {how}: {said()}")  # type: ignore[index]
        time.sleep(0.05)


def end(
    process: subprocess.Popen[bytes] | None,
    how: signal.Signals = signal.SIGTERM,
    *,
    group: bool = False,
    seconds: float = 60.0,
) -> int | None:
    """End it, or its whole ``group``, and wait; its exit code.

    ``None`` if it was not running, or would not end and was killed with all of its group.
    """
    if process is None or (process.poll() is not None and not group):
        return None
    _send(process, how, group)
    try:
        return process.wait(seconds)
    except subprocess.TimeoutExpired:
        _send(process, signal.SIGKILL, os.getpgid(process.pid) == process.pid)
        process.wait(seconds)
        return None


def children(pid: int) -> list[int]:
    """Those of its main thread; none if it is gone."""
    try:
        return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except FileNotFoundError:
        return []


def wait_until_gone(pids: Iterable[int], seconds: float = 60.0) -> None:
    """Wait for processes that somebody else will wait for, if not yet: zombies are gone."""
    left = list(pids)
    eventually(
        lambda: not any(map(_lives, left)), seconds, otherwise=lambda: f"{left} do not all end"
    )


@contextmanager
def suspended(pid: int, seconds: float = 60.0) -> Iterator[None]:
    """SIGSTOP and SIGCONT, with its children.

    On a busy machine a process answers a moment longer: the block begins when no thread runs.
    """
    stopped: list[int] = []
    try:
        for each in _with_children(pid):  # a parent that has stopped gets no more of them
            stopped.append(each)
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGSTOP)
            give_up = time.monotonic() + seconds
            while not set("".join(_states(f"{each}/task/*"))) <= set("TZX"):
                assert time.monotonic() < give_up, f"process {each} does not stop"
                time.sleep(0.02)
        yield
    finally:
        for each in stopped:
            with suppress(ProcessLookupError):
                os.kill(each, signal.SIGCONT)


def _with_children(pid: int) -> Iterator[int]:
    yield pid
    yield from children(pid)


def _states(which: str) -> Iterator[str]:
    """The state of each process or thread that is there, a letter."""
    for stat in Path("/proc").glob(f"{which}/stat"):
        with suppress(FileNotFoundError, ProcessLookupError):
            yield stat.read_text().rpartition(")")[2].split()[0]


def _lives(pid: int) -> bool:
    return not set(_states(f"{pid}")) <= set("ZX")


def _send(process: subprocess.Popen[bytes], how: signal.Signals, group: bool) -> None:
    with suppress(ProcessLookupError):
        if group:
            os.killpg(process.pid, how)
        else:
            process.send_signal(how)
