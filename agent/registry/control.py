"""The rules for disabling and enabling hosts, for computectl and for the REST API.

The record is changed first.  Then the agent is called, if it is up and its RPC version has the
call; if not, it follows the record when it starts or with its next heartbeat.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from agent.bus.caller import NOBODY, REASON, Caller
from agent.registry.access import Registry
from agent.registry.errors import Attached
from agent.registry.record import DOWN_AFTER, ServiceRecord
from reportclient.plain_text import plain

if TYPE_CHECKING:  # it loads oslo.messaging
    from agent.bus.rpcapi import ComputeAgentAPI

LOG = logging.getLogger(__name__)

OLDEST = (5, 0)
"""The first version of the compute RPC that is known to set the trait."""

LATER = "its agent follows the record when the next heartbeat brings it"


@dataclass(frozen=True, slots=True)
class Switched:
    """The result of switching a host.

    ``called`` says whether the agent was called; ``why_not`` why it was not, or why
    there is no ``answer``.
    """

    record: ServiceRecord
    called: bool
    why_not: str | None = None
    answer: str | None = None

    @property
    def call_outcome(self) -> str:
        """What came of the call to the agent, for people."""
        if self.answer is not None:
            return f"called, answered {self.answer}"
        return f"called, {self.why_not}" if self.called else f"not called: {self.why_not}"


@dataclass(slots=True)
class Control:
    """The rules over one registry; ``compute_api`` is ``None`` where there is no message bus."""

    registry: Registry
    compute_api: ComputeAgentAPI | None
    down_after: float = DOWN_AFTER

    def switch(
        self, host: str, *, disabled: bool, reason: str | None = None, caller: Caller = NOBODY
    ) -> Switched:
        """Disable or enable a host; ``caller`` is for the logs.

        :raises RegistryError: the record could not be changed; nothing else was done then.
        """
        self._refuse_attached(host, "--disable" if disabled else "--enable")
        record = self.registry.set_status(host, disabled=disabled, reason=reason)
        # Before the call: the agent's log may say the same earlier otherwise.
        log_switched(record, caller)
        done = self._call(record, caller)
        LOG.info("%s, %s [%s]", record.host, plain(done.call_outcome), caller.request_id)
        return done

    def force_down(self, host: str, caller: Caller, *, forced_down: bool) -> ServiceRecord:
        """Force a host down, or take that back.

        When it is taken back the agent is called: it was not called while it counted as down.

        :raises RegistryError:
        """
        self._refuse_attached(host, "--down" if forced_down else "--up")
        record = self.registry.set_forced_down(host, forced_down=forced_down)
        log_forced(record, caller)
        if not forced_down:
            done = self._call(record, caller).call_outcome
            LOG.info("%s, %s [%s]", record.host, plain(done), caller.request_id)
        return record

    def delete(self, host: str, caller: Caller) -> None:
        """Delete a host's record.  :raises RegistryError:"""
        self.registry.delete(host)
        log_deleted(host, caller)

    def _refuse_attached(self, host: str, how: str) -> None:
        """:raises Attached: its agent would not follow the record."""
        if self.registry.get_service(host).attached:
            raise Attached(
                f"{host} is attached: its compute service is nova-compute's, and nothing was "
                f"changed; in Nova: openstack compute service set {how} {host} nova-compute"
            )

    def _call(self, record: ServiceRecord, caller: Caller) -> Switched:
        why_not = reason_not_to_call(record, self.down_after)
        if why_not is not None:
            return Switched(record, called=False, why_not=why_not)
        if self.compute_api is None:
            return Switched(record, called=False, why_not=f"there is no message bus; {LATER}")
        try:
            answer = self.compute_api.set_host_enabled(
                record.host,
                not record.disabled,
                record_version=record.version,
                about=_about(record, caller),
            )
        except Exception as err:  # noqa: BLE001  the record stands, whatever became of the call
            return Switched(record, called=True, why_not=f"{err}; {LATER}")
        return Switched(record, called=True, answer=answer)


def log_switched(record: ServiceRecord, caller: Caller) -> None:
    """Log who switched a host, and why; the agent logs the same request id or record version."""
    reason = f" ({record.disabled_reason})" if record.disabled_reason else ""
    words = record.host, record.status, reason, record.version, caller
    LOG.info("%s is %s now%s, record version %s, %s", *words)


def log_forced(record: ServiceRecord, caller: Caller) -> None:
    """Who did it."""
    what = "forced down" if record.forced_down else "no longer forced down"
    LOG.info("%s is %s now, record version %s, %s", record.host, what, record.version, caller)


def log_deleted(host: str, caller: Caller) -> None:
    """Who did it."""
    LOG.info("The record of %s was deleted, %s", host, caller)


def _about(record: ServiceRecord, caller: Caller) -> dict[str, str]:
    reason = {REASON: record.disabled_reason} if record.disabled_reason else {}
    return caller.context() | reason


def reason_not_to_call(record: ServiceRecord, down_after: float = DOWN_AFTER) -> str | None:
    """Return why the agent of this record is not called, or ``None``."""
    if record.last_seen is None:
        return f"{record.host} has never been up; its agent reads the record when it starts"
    if record.forced_down:
        return f"{record.host} is forced down; {LATER}"
    if not record.is_up(down_after):
        return f"{record.host} is down; its agent reads the record when it starts"
    version = _version(record.rpc_version)
    if version is None:
        return f"the RPC version of {record.host} is not known; {LATER}"
    if version < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        return (
            f"{record.host} speaks RPC {record.rpc_version}, older than {oldest}; "
            "it follows once it was upgraded and restarted"
        )
    return None


def _version(text: str | None) -> tuple[int, int] | None:
    found = re.fullmatch(r"(\d+)\.(\d+)", text or "")
    return (int(found[1]), int(found[2])) if found else None
