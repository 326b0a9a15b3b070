"""The client side of Nova's compute RPC API, as far as an agent serves it: set_host_enabled.

Topic ``compute``, server = host, the exchange of ``control_exchange``, no namespace, versions
5.x and 6.x.  The context is a dict; this project's callers put ``record_version`` into it.
The answer is ``'enabled'`` or ``'disabled'``.
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

from agent.bus.incoming import TOPIC
from agent.bus.messaging import RpcClient, Target
from agent.bus.signing import RECORD_VERSION, Operator

EXCHANGE = "nova"
VERSION_OF_CALLS = "5.0"
"""The version that each server with this method understands."""
SIGN_OF_LIFE = 10.0
"""Seconds without a heartbeat of the called server after which the call fails."""


class ComputeAgentAPI:
    """Calls agents, or nova-compute, over RPC."""

    def __init__(
        self,
        transport: Any,
        exchange: str = EXCHANGE,
        timeout: float = 60.0,
        monitor: float | None = None,
        operator: Operator | None = None,
    ) -> None:
        """``timeout`` in seconds.  With ``monitor`` the server has to send a heartbeat that
        often (seconds), and ``timeout`` can be long.  ``operator`` is for agents with a host key.
        """
        target = Target(exchange=exchange, topic=TOPIC, version=VERSION_OF_CALLS)
        self.rpc = RpcClient(transport, target, timeout, monitor)
        self.sign_as(operator)

    def sign_as(self, operator: Operator | None) -> None:
        """Sign the next calls with the keys of this operator, and check their answers."""
        self.rpc.sign = None if operator is None else operator.sign_to
        self.rpc.open_answer = None if operator is None else operator.opened_answer

    def set_host_enabled(
        self,
        host: str,
        enabled: bool,
        *,
        record_version: int | None = None,
        about: Mapping[str, Any] = {},
        answered: bool = True,
    ) -> str | None:
        """Return the host's answer, ``'enabled'`` or ``'disabled'``; ``None`` if not ``answered``.

        ``record_version``: the version of the service record that has this status already; an
        agent that has seen a later version ignores the call.  ``about``: caller and reason for
        the agent's log, under the names of :mod:`agent.bus.caller`.

        :raises agent.errors.NoAnswer: there is no such host, or it is down.
        :raises agent.errors.TransportUnavailable: the broker can't be reached.
        :raises agent.errors.RemoteFault: the host answered with an error.
        :raises agent.errors.NotPermitted: the answer is not signed with the host's key.
        """
        version = {} if record_version is None else {RECORD_VERSION: record_version}
        call = partial(self.rpc.call, "set_host_enabled", server=host, context={**about, **version})
        answer: str | None = call(answered=answered, enabled=enabled)
        return answer
