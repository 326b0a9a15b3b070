"""The rules for disabling and enabling hosts, for computectl and for the REST API.

The record is changed first.  Then the agent is called, if it is up and answers calls; if not, it
follows the record when it starts or with its next heartbeat.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from agent.bus.caller import NOBODY, REASON, Caller
from agent.errors import Attached, Changed
from agent.registry.checks import StatusChange
from agent.registry.record import DOWN_AFTER, Records, ServiceRecord
from reportclient.plain_text import plain

if TYPE_CHECKING:  # it loads oslo.messaging
    from agent.bus.rpcapi import ComputeAgentAPI

LOG = logging.getLogger("compute_agent.registry")

TRIES = 4
"""How often a change of a record is tried if other operators change it meanwhile."""
LATER = "its agent applies the record at its next heartbeat"


@dataclass(frozen=True, slots=True)
class Switched:
    """The result of switching a host."""

    record: ServiceRecord
    outcome: str
    """``called and answered: disabled``, or why the agent was not called or has not answered."""
    answer: str | None = None
    """The agent's, ``None`` if there is none."""


@dataclass(slots=True)
class Control:
    """Changes records and calls agents; ``compute_api`` is ``None`` without a message bus."""

    registry: Records
    compute_api: ComputeAgentAPI | None
    down_after: float = DOWN_AFTER

    def switch(
        self, host: str, *, disabled: bool, reason: str | None = None, caller: Caller = NOBODY
    ) -> Switched:
        """Disable or enable a host; ``caller`` is for the logs.

        :raises RegistryError: the record could not be changed; nothing else was done then.
        """

        def change(record: ServiceRecord) -> ServiceRecord:
            if record.attached:
                option = "--disable" if disabled else "--enable"
                raise Attached(
                    f"nothing was changed: {host} runs in attach mode, where nova-compute owns the "
                    f"compute service; run: openstack compute service set {option} {host} "
                    "nova-compute"
                )
            version = record.version
            return self.registry.set_status(
                StatusChange(host, disabled=disabled, reason=reason, expected_version=version)
            )

        record = self._change(host, change)
        # Before the call, so that this log line is earlier than the agent's.
        log_switched(record, caller)
        return self._call(record, caller)

    def force_down(self, host: str, caller: Caller, *, forced_down: bool) -> ServiceRecord:
        """Set or unset ``forced_down``.

        When it is unset the agent is called, since it was not called while it counted as down.

        :raises RegistryError: the record could not be changed.
        """

        def change(record: ServiceRecord) -> ServiceRecord:
            set_to = partial(self.registry.set_forced_down, host, forced_down=forced_down)
            return set_to(expected_version=record.version)

        record = self._change(host, change)
        log_forced(record, caller)
        if not forced_down:
            self._call(record, caller)
        return record

    def delete(self, host: str, caller: Caller) -> ServiceRecord:
        """Delete the record that a host has now, and none that is created later; return it.

        :raises RegistryError: it could not be deleted.
        """
        record = self.registry.get_service(host)
        self.registry.delete(host, uuid=record.uuid)
        log_deleted(host, caller)
        return record

    def _change(self, host: str, change: Callable[[ServiceRecord], ServiceRecord]) -> ServiceRecord:
        """Read a record and have ``change`` change it; return its result.

        :raises Changed: other operators changed the record during each of the tries.
        """
        for _ in range(TRIES - 1):
            with suppress(Changed):
                return change(self.registry.get_service(host))
        return change(self.registry.get_service(host))

    def _call(self, record: ServiceRecord, caller: Caller) -> Switched:
        """Call the agent of a record, unless there is a reason not to; log the outcome."""
        api, answer = self.compute_api, None
        why_not = reason_not_to_call(record, self.down_after, bus=api is not None)
        if api is None or why_not is not None:
            outcome = f"not called: {why_not}"
        else:
            reason = {REASON: record.disabled_reason} if record.disabled_reason else {}
            about = caller.context() | reason
            switch = partial(api.set_host_enabled, record.host, not record.disabled)
            try:
                answer = switch(record_version=record.version, about=about)
                outcome = f"called and answered: {answer}"
            except Exception as err:  # noqa: BLE001  the record is changed, whatever the outcome
                outcome = f"called, {err}; {LATER}"
        outcome = plain(outcome)
        LOG.info("%s: its agent was %s [%s]", record.host, outcome, caller.request_id)
        return Switched(record, outcome, answer)


def log_switched(record: ServiceRecord, caller: Caller) -> None:
    """Log who switched a host, and why; the agent logs the same request id or record version."""
    reason = f" ({record.disabled_reason})" if record.disabled_reason else ""
    values = record.host, record.status, reason, record.version, caller
    LOG.info("%s is %s now%s, record version %s, %s", *values)


def log_forced(record: ServiceRecord, caller: Caller) -> None:
    """Log a change of ``forced_down`` with its caller."""
    what = "forced down" if record.forced_down else "no longer forced down"
    LOG.info("%s is %s now, record version %s, %s", record.host, what, record.version, caller)


def log_deleted(host: str, caller: Caller) -> None:
    """Log the deletion of a record with its caller."""
    LOG.info("The record of %s was deleted, %s", host, caller)


def reason_not_to_call(record: ServiceRecord, down_after: float, *, bus: bool) -> str | None:
    """Return why the agent of this record is not called, and what happens instead, or ``None``."""
    if record.last_seen is None:
        return f"{record.host} has never been up; its agent applies the record when it starts"
    if record.forced_down:
        return f"{record.host} is forced down; {LATER}"
    if not record.is_up(down_after):
        return f"{record.host} is down; its agent applies the record when it starts"
    if not bus:
        return "no message bus is configured; its agent applies the record within a second"
    if record.rpc_version is None:
        return f"the RPC version of {record.host} is not known; {LATER}"
    return None
