"""Calls to agents for the REST API, which wait for an answer for a short time only.

An agent may hang, or wait for Placement; it follows its record all the same.  So a request
waits ``WITHIN`` seconds, and not at all if an earlier call to the host has no answer yet.
``WAITING_AT_ONCE`` limits the waiting requests, so that threads are left for others.
"""

import threading
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from agent.bus.errors import NoAnswer, Sign
from agent.bus.rpcapi import SIGN_OF_LIFE, ComputeAgentAPI
from agent.loop import in_thread

WITHIN = 3.0
"""Seconds."""
WAITING_AT_ONCE = 16
"""Half of the threads of the REST interface."""
UNDER_WAY = 128
"""Calls at the same time, including those whose request has ended."""


@dataclass(slots=True)
class AgentCalls:
    """See :class:`agent.registry.control.ComputeAPI`."""

    agents: Any
    waiting: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(WAITING_AT_ONCE)
    )
    within: float = WITHIN
    _called: dict[str, Future[str]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def over(cls, transport: Any, exchange: str, sign: Sign | None = None) -> "AgentCalls":
        """Return the calls over this transport."""
        return cls(
            ComputeAgentAPI(
                transport, exchange=exchange, monitor=SIGN_OF_LIFE, at_once=UNDER_WAY, sign=sign
            )
        )

    def set_host_enabled(
        self,
        host: str,
        enabled: bool,
        *,
        record_version: int | None = None,
        about: Mapping[str, Any] = {},
    ) -> str:
        """Return ``enabled`` or ``disabled``.

        :raises NoAnswer: none yet: the call goes on, or an earlier call has no answer yet.
        :raises agent.bus.errors.MessagingError: as :class:`ComputeAgentAPI` says it.
        """
        with self._lock:
            earlier = self._called.get(host)
            if earlier is not None and not earlier.done():
                raise NoAnswer("an earlier call to this agent has no answer yet")
            self._called = {name: each for name, each in self._called.items() if not each.done()}
            call = in_thread(
                lambda: self.agents.set_host_enabled(
                    host, enabled, record_version=record_version, about=about
                ),
                f"call {host}",
            )
            self._called[host] = call
        return self._answer(call)

    def under_way(self) -> list[str]:
        """Return the hosts with a call that has no answer yet."""
        return sorted(host for host, call in list(self._called.items()) if not call.done())

    def _answer(self, call: Future[str]) -> str:
        if not self.waiting.acquire(blocking=False):
            raise NoAnswer("the answer was not awaited: too many agents answer slowly")
        try:
            return call.result(self.within)
        except TimeoutError as err:
            raise NoAnswer(f"no answer within {self.within:g} s") from err
        finally:
            self.waiting.release()
