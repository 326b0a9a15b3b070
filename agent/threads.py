"""Threads that have to live as long as their process, such as those of heartbeats and metrics.

An exception would end such a thread in silence, and what it does would stop without a trace.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable

from agent.retrying import until_it_works

LOG = logging.getLogger("compute_agent.service")

LONGEST_PAUSE = 5.0
"""Seconds until the work of a thread that failed begins again, at most."""
START_WITHIN = 10.0
"""Seconds for which a thread that can't be started is tried again."""
TRIED_EVERY = 0.5


class NoThread(Exception):
    """A thread can't be started: too many run.  Its text ends the process, which systemd restarts.

    Next: the operator raises TasksMax of the unit, or finds what uses the threads.
    """


def keep_running(work: Callable[[], object], name: str, stopping: threading.Event) -> None:
    """Run ``work`` in a daemon thread of this name; return once the thread has started.

    Work that raises is logged and begins again, until ``stopping`` is set; work that returns is
    done.

    :raises NoThread: the thread could not be started for ``START_WITHIN`` seconds.
    """

    def log(_: str) -> None:
        text = "Thread %s failed, it begins again within %g s"
        LOG.error(text, name, LONGEST_PAUSE, exc_info=sys.exception())

    def run() -> None:
        until_it_works(work, stopping, log, LONGEST_PAUSE, (Exception, SystemExit))

    started(threading.Thread(target=run, name=name, daemon=True))


def started(thread: threading.Thread) -> None:
    """Start a thread.  :raises NoThread: it could not be started for ``START_WITHIN`` seconds."""
    until = time.monotonic() + START_WITHIN
    while True:
        try:
            return thread.start()
        except RuntimeError as err:
            if time.monotonic() >= until:
                raise NoThread(
                    f"thread {thread.name} could not be started for {START_WITHIN:g} s: {err}; "
                    "raise TasksMax of the systemd unit, or pids.max of its cgroup"
                ) from err
        time.sleep(TRIED_EVERY)
