"""Call an agent, or the reference's compute service, from Python: set_host_enabled.

The wire: topic ``compute``, server = host, the exchange of ``control_exchange``, no
namespace; versions 5.x and 6.x; the context is a dict, of which only the
``record_version`` of our own callers is looked at; the answer is ``'enabled'`` or
``'disabled'``.
"""

import threading
from collections.abc import Mapping
from typing import Any

from agent.bus.errors import Sign
from agent.bus.messaging import CALLS_AT_ONCE, RpcClient, Target

TOPIC = "compute"
EXCHANGE = "nova"
VERSION_OF_CALLS = "5.0"
"""Understood by everybody who has the method at all."""
RECORD_VERSION = "record_version"
"""In the context: the call comes after the record, and is as old as that."""
SIGN_OF_LIFE = 10.0
"""Seconds after which an operator is told that an agent is dead, though it still counts as up."""


class ComputeAgentAPI:
    """Calls agents, or the reference's compute services, from Python."""

    def __init__(  # noqa: PLR0913  all but the first are given by name
        self,
        transport: Any,
        *,
        exchange: str = EXCHANGE,
        timeout: float = 60.0,
        monitor: float | None = None,
        at_once: int = CALLS_AT_ONCE,
        sign: Sign | None = None,
    ) -> None:
        """``timeout`` in seconds; with ``monitor`` a server has to show a sign of life that
        often, and the ``timeout`` can be long.  At most ``at_once`` calls are under way;
        ``sign`` is for agents that demand it.
        """
        target = Target(exchange=exchange, topic=TOPIC, version=VERSION_OF_CALLS)
        self.rpc = RpcClient(
            transport, target, timeout, monitor, slots=threading.Semaphore(at_once), sign=sign
        )

    def set_host_enabled(
        self,
        host: str,
        enabled: bool,
        *,
        record_version: int | None = None,
        about: Mapping[str, Any] = {},
    ) -> str:
        """``'enabled'`` or ``'disabled'``, by the host's own words.

        ``record_version``: the registry's record says so already, in this version; an agent
        that has seen a later one does not go back.  ``about``, by the names of
        :mod:`agent.bus.caller`: who asks, and why, for the agent's log.

        :raises agent.bus.errors.NoAnswer: no such host, or it is down.
        :raises agent.bus.errors.TransportUnavailable: the broker can't be reached.
        :raises agent.bus.errors.RemoteFault: the host failed.
        """
        version = {} if record_version is None else {RECORD_VERSION: record_version}
        context = {**about, **version}
        answer: str = self.rpc.call(
            "set_host_enabled", server=host, context=context, enabled=enabled
        )
        return answer
