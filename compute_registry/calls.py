"""Calls to agents for the REST API, which wait for an answer for a short time only.

An agent may hang, or wait for Placement; it follows its record all the same.  So a request
waits ``WITHIN`` seconds, and not at all if an earlier call to the host has no answer yet.
``WAITING_AT_ONCE`` limits the waiting requests, so that threads are left for others.
"""

import threading
from concurrent.futures import Future
from functools import partial
from typing import Any

from agent.bus.errors import NoAnswer
from agent.bus.rpcapi import SIGN_OF_LIFE, ComputeAgentAPI
from agent.bus.signing import Operator
from agent.loop import in_thread

WITHIN = 3.0
"""Seconds that a request waits for an agent's answer."""
WAITING_AT_ONCE = 16
"""Half of the threads of the REST interface."""
UNDER_WAY = 128
"""Calls at the same time, including those whose request has ended."""


class AgentCalls(ComputeAgentAPI):
    """Calls agents for the REST API; see this module's docstring."""

    def __init__(self, transport: Any, exchange: str, operator: Operator | None = None) -> None:
        super().__init__(
            transport, exchange=exchange, monitor=SIGN_OF_LIFE, at_once=UNDER_WAY, operator=operator
        )
        self.waiting = threading.Semaphore(WAITING_AT_ONCE)
        self.within = WITHIN
        self._called: dict[str, Future[str]] = {}
        self._lock = threading.Lock()

    def set_host_enabled(self, host: str, enabled: bool, **details: Any) -> str:
        """See :meth:`ComputeAgentAPI.set_host_enabled`.

        :raises NoAnswer: none yet: the call goes on, or an earlier call has no answer yet.
        """
        set_host_enabled = partial(super().set_host_enabled, host, enabled, **details)
        with self._lock:
            earlier = self._called.get(host)
            if earlier is not None and not earlier.done():
                raise NoAnswer("an earlier call to this agent has no answer yet")
            self._called = {name: each for name, each in self._called.items() if not each.done()}
            call = in_thread(set_host_enabled, f"call {host}")
            self._called[host] = call
        if not self.waiting.acquire(blocking=False):
            raise NoAnswer("the answer was not awaited: too many agents answer slowly")
        try:
            return call.result(self.within)
        except TimeoutError as err:
            raise NoAnswer(f"no answer within {self.within:g} s") from err
        finally:
            self.waiting.release()

    def under_way(self) -> list[str]:
        """Return the hosts with a call that has no answer yet."""
        return sorted(host for host, call in list(self._called.items()) if not call.done())
