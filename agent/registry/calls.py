"""Calls to agents that hold nobody: whoever switches a host by REST waits a moment at most.

An agent may hang, or take its time with Placement; it follows its record all the same.  So
a caller waits for ``WITHIN`` seconds, at a host of which an earlier call has no answer yet
not at all, and only so many wait at once: the other threads are there for the other hosts.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.bus.messaging import NoAnswer, Sign
from agent.bus.rpcapi import SIGN_OF_LIFE, ComputeAgentAPI

WITHIN = 3.0
"""Seconds."""
WAITING_AT_ONCE = 16
"""Half of the threads of the REST interface."""
UNDER_WAY = 128
"""Calls, those included that nobody waits for any more."""


@dataclass(slots=True)
class Promptly:
    """See :class:`agent.registry.control.ComputeAPI`."""

    agents: Any
    waiting: threading.Semaphore = field(
        default_factory=lambda: threading.Semaphore(WAITING_AT_ONCE)
    )
    within: float = WITHIN
    _called: dict[str, threading.Thread] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def over(cls, transport: Any, exchange: str, sign: Sign | None = None) -> Promptly:
        """On this transport."""
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
        """``enabled`` or ``disabled``.

        :raises NoAnswer: not yet; the call goes on, or was left out for an earlier one.
        :raises agent.bus.messaging.MessagingError: as :class:`ComputeAgentAPI` says it.
        """
        call = _Call(
            lambda: self.agents.set_host_enabled(
                host, enabled, record_version=record_version, about=about
            )
        )
        with self._lock:
            earlier = self._called.get(host)
            if earlier is not None and earlier.is_alive():
                raise NoAnswer("an earlier call to it has no answer yet")
            self._called = {name: each for name, each in self._called.items() if each.is_alive()}
            self._called[host] = call.start(host)
        return self._answer(call)

    def _answer(self, call: _Call) -> str:
        if not self.waiting.acquire(blocking=False):
            raise NoAnswer("called without waiting for an answer: too many hosts are slow")
        try:
            if not call.done.wait(self.within):
                raise NoAnswer(f"no answer within {self.within:g} s")
        finally:
            self.waiting.release()
        if call.error is not None:
            raise call.error
        return call.answer


@dataclass(slots=True)
class _Call:
    """In a thread of its own, which ends when oslo.messaging gives it up."""

    job: Any
    done: threading.Event = field(default_factory=threading.Event)
    answer: str = ""
    error: Exception | None = None

    def start(self, host: str) -> threading.Thread:
        thread = threading.Thread(target=self._run, name=f"call {host}", daemon=True)
        thread.start()
        return thread

    def _run(self) -> None:
        try:
            self.answer = self.job()
        except Exception as err:  # noqa: BLE001  it is raised where somebody waits
            self.error = err
        finally:
            self.done.set()
