"""Whether this registry can be heard: a message of its own comes back over the broker.

A broker that hangs, or takes no messages since its memory is full, keeps its connections.  Then the
silence of hosts says nothing about them.
"""

import logging
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from agent.bus.errors import MessagingError
from agent.bus.messaging import RpcClient

LOG = logging.getLogger(__name__)

WITHIN = 5.0
"""Seconds after an echo in which others' messages are expected to arrive, too."""
TIMEOUT = 2.0
"""Seconds to send one."""


@dataclass(slots=True)
class Echo:
    """Sends messages to its own server, ``name``, and notes when they come back."""

    rpc: RpcClient
    name: str
    clock: Callable[[], float] = time.monotonic
    _number: str = field(default_factory=secrets.token_hex)
    """Known to this instance only."""
    _heard_at: float = -inf

    def send(self) -> None:
        """Send a message; it comes back to :meth:`hear`."""
        try:
            self.rpc.call("echo", server=self.name, answered=False, number=self._number)
        except MessagingError as err:
            LOG.debug("No echo: %s", err)

    def hear(self, number: object) -> None:
        """Note that a message came; one of somebody else counts for nothing."""
        if number == self._number:
            self._heard_at = self.clock()

    def is_heard(self) -> bool:
        """Return whether a message came back lately."""
        return self.clock() - self._heard_at <= WITHIN
