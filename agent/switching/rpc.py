"""The agent's RPC server: set_host_enabled, as in Nova's compute RPC API.

``agent/bus/rpcapi.py`` describes the calls; versions 5.x and 6.x are answered.  oslo.messaging's
server sends the heartbeats that a caller with ``call_monitor_timeout`` expects.
"""

import logging
from concurrent.futures import CancelledError
from typing import Any

from agent.bus.caller import Caller, reason_of
from agent.bus.errors import WAITED, Permit
from agent.bus.messaging import Target
from agent.bus.rpcapi import EXCHANGE, TOPIC
from agent.bus.server import RpcServer
from agent.bus.signing import RECORD_VERSION
from agent.switching.host_status import VERSION_5, VERSION_6, HostStatus

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
        calls without a version that waited while the agent did not listen, change nothing: the
        answer is the status of the host.
        """
        if not isinstance(enabled, bool):
            raise ValueError(f"enabled has to be true or false, not {enabled!r}")
        context = context if isinstance(context, dict) else {}
        why_asked, verb = reason_of(context), "enable" if enabled else "disable"
        LOG.info(
            "RPC call to %s this host%s, %s",
            verb,
            f" ({why_asked})" if why_asked else "",
            Caller.from_context(context),
        )
        version = context.get(RECORD_VERSION)
        if not isinstance(version, int) or isinstance(version, bool):
            version = None
        waited = version is None and bool(context.get(WAITED))
        if waited:
            LOG.warning(
                "Ignoring a call to %s this host: it waited in the queue while the agent did not "
                "listen",
                verb,
            )
            written = self._status.recheck()
        else:
            written = self._status.switch(disabled=not enabled, version=version)
        self._status.in_step(REGISTRY_WITHIN)
        if version is not None or waited:
            enabled = not self._status.disabled
        answer = "enabled" if enabled else "disabled"
        try:
            written.result(ANSWER_WITHIN)
        except TimeoutError:
            why = "a period is running, COMPUTE_STATUS_DISABLED is written after it"
            LOG.warning("Answering %r: %s", answer, why)
        except CancelledError:
            why = "the agent stops, COMPUTE_STATUS_DISABLED is written after its start"
            LOG.warning("Answering %r: %s", answer, why)
        return answer


def rpc_server(
    transport: Any,
    host: str,
    status: HostStatus,
    exchange: str = EXCHANGE,
    permit: Permit | None = None,
) -> RpcServer:
    """Return the RPC server of this host, not started."""
    target = Target(exchange=exchange, topic=TOPIC, server=host)
    endpoints = [ComputeEndpoint(status, version=version) for version in (VERSION_6, VERSION_5)]
    server = RpcServer(transport, target, endpoints)
    server.largest, server.permit = LARGEST, permit
    return server
