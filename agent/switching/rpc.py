"""The agent's RPC server: set_host_enabled, as in Nova's compute RPC API.

``agent/bus/rpcapi.py`` describes the calls; versions 5.x and 6.x are answered.  oslo.messaging's
server sends the heartbeats that a caller with ``call_monitor_timeout`` expects.
"""

import logging
from concurrent.futures import CancelledError
from typing import Any

from agent.bus.caller import Caller, reason_of
from agent.bus.incoming import TOPIC, WAITED
from agent.bus.messaging import Target
from agent.bus.server import RpcServer
from agent.bus.signing import record_version
from agent.switching.host_status import VERSION_5, VERSION_6, HostStatus
from agent.switching.machine import Event

LOG = logging.getLogger("compute_agent.registry")

LARGEST = 256 * 2**10
"""Bytes of a call; the context of one of Nova's has some thousand."""
ANSWER_WITHIN = 45.0
"""Seconds; callers without ``call_monitor_timeout`` give up after 60."""
REGISTRY_WITHIN = 2.0
"""Seconds that an answer waits until the registry has the status, if the registry answers."""


class ComputeEndpoint:
    """The RPC endpoint of this host for one major version; it runs in the RPC server's threads."""

    # Each name without an underscore can be called over RPC.
    def __init__(self, status: HostStatus, version: str = VERSION_6) -> None:
        self.target = Target(version=version)
        self._status = status

    def set_host_enabled(self, context: dict[str, Any], enabled: bool) -> str:
        """Disable or enable this host, and return its status: ``'enabled'`` or ``'disabled'``.

        The status is saved first, so the answer is the same if the trait can be written only
        later, because Placement does not answer.  Calls for an older version of the record, and
        calls without a version that waited while the agent did not listen, change nothing.
        """
        if not isinstance(enabled, bool):
            raise ValueError(f"enabled has to be true or false, not {enabled!r}")
        reason = f" ({why})" if (why := reason_of(context)) else ""
        verb, caller = "enable" if enabled else "disable", Caller.from_context(context)
        LOG.info("RPC call to %s this host%s, %s", verb, reason, caller)
        version = record_version(context)
        event = Event.ENABLE if enabled else Event.DISABLE
        if version is None and context.get(WAITED):
            why = "it waited in the queue while the agent did not listen"
            LOG.warning("Ignoring a call to %s this host: %s", verb, why)
            event = Event.ASK
        written = self._status.handle(event, version=version)
        self._status.in_step(REGISTRY_WITHIN)
        answer = "disabled" if self._status.disabled else "enabled"
        try:
            written.result(ANSWER_WITHIN)
        except (TimeoutError, CancelledError) as err:
            why = "a period is running" if isinstance(err, TimeoutError) else "the agent stops"
            LOG.warning("Answering %r: %s, COMPUTE_STATUS_DISABLED is written later", answer, why)
        return answer


def rpc_server(transport: Any, host: str, exchange: str, status: HostStatus) -> RpcServer:
    """Return the RPC server of this host, not started."""
    target = Target(exchange=exchange, topic=TOPIC, server=host)
    endpoints = [ComputeEndpoint(status, version=version) for version in (VERSION_6, VERSION_5)]
    server = RpcServer(transport, target, endpoints)
    server.largest = LARGEST
    return server
