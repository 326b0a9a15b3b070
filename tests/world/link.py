"""The connection from a host to Placement, which loses, delays and repeats requests and replies."""

from __future__ import annotations

import functools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from reportclient import errors
from reportclient.http import version_for
from tests.world.scheduler import Scheduler

LATENCY = 0.02
Send = Callable[..., dict[str, Any]]

ANSWERS = {
    "is answered 400": errors.Rejected,
    "is answered 403": errors.Forbidden,
    "is answered 404": errors.NotFound,
    "is answered 409": errors.Conflict,
    "is answered 503": errors.Unreachable,
}
"""Answers to requests that are not carried out."""
LOST = "is lost"
FAULTS = (
    LOST,
    "is carried out, and its reply is lost",
    "gets no answer, and is carried out later",
    "is carried out twice",
    "takes long",
    "is carried out, and answered 500",
    *ANSWERS,
)


@dataclass
class Link:
    """An API of Placement with faults; ``send`` carries a request out at once."""

    scheduler: Scheduler
    dice: random.Random
    send: Send
    step: Callable[[], None]
    cut: bool = False
    faults: list[tuple[str, float, bool]] = field(default_factory=list)
    """Faults of the next requests: kind, seconds, and whether only writes are affected."""
    calls: int = 0
    late: Callable[[Callable[[], object]], None] = lambda carry_out: carry_out() and None
    """Carries out a request that its client has given up."""

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """As :class:`reportclient.http.API`."""
        self.step()
        self.calls += 1
        fault, seconds = self._fault(method)
        self.scheduler.sleep(self.dice.uniform(0, LATENCY))
        version = version_for(needs)
        send = functools.partial(self.send, method, path, json=json, microversion=version)
        reply = self._send_with_fault(fault, seconds, send)
        self.scheduler.sleep(self.dice.uniform(0, LATENCY))
        return reply

    def _fault(self, method: str) -> tuple[str, float]:
        for number, (kind, seconds, write) in enumerate(self.faults):
            if method != "GET" or not write:
                del self.faults[number]
                return kind, seconds
        return (LOST, 1.0) if self.cut else ("", 0.0)

    def _send_with_fault(self, fault: str, seconds: float, carry_out: Send) -> dict[str, Any]:
        match fault:
            case "is lost":
                self.scheduler.sleep(seconds)
            case "gets no answer, and is carried out later":
                self.scheduler.stray(lambda: self.late(lambda: _quietly(carry_out)), seconds)
            case "is carried out, and its reply is lost":
                _quietly(carry_out)
            case "is carried out twice":
                _quietly(carry_out)
                return carry_out()
            case "takes long":
                self.scheduler.sleep(seconds)
                return carry_out()
            case "is carried out, and answered 500":
                _quietly(carry_out)
                raise errors.ServerFault("500")
            case _ if fault in ANSWERS:
                raise ANSWERS[fault](fault)
            case _:
                return carry_out()
        raise errors.Unreachable("no answer")


def _quietly(carry_out: Send) -> None:
    try:
        carry_out()
    except errors.PlacementError:
        pass
