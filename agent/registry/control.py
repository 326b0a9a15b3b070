"""Hosts switched off and on: the rules, for the command and the REST interface alike.

The record comes first, because it is what lasts.  The agent is then told at once if it
is up and speaks a version that knows how; if not, it follows the record by itself, when
it starts or when its next heartbeat brings the record back.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass
from typing import Protocol

from agent.registry.api import Registry
from agent.registry.record import DOWN_AFTER, ServiceRecord

LOG = logging.getLogger(__name__)

OLDEST = (5, 0)
"""The first version of the compute RPC that is known to set the trait."""
LATER = "its agent follows the record when the next heartbeat brings it"


class ComputeAPI(Protocol):
    """An agent, called."""

    def set_host_enabled(
        self, host: str, enabled: bool, *, record_version: int | None = None
    ) -> str:
        """``enabled`` or ``disabled``, once the agent has done what it can.

        ``record_version`` is that of the record which says so already.
        """


@dataclass(frozen=True, slots=True)
class Switched:
    """What happened.

    ``called`` says whether the agent was called; ``why_not`` why it was not, or why
    there is no ``answer``.
    """

    record: ServiceRecord
    called: bool
    why_not: str | None = None
    answer: str | None = None


@dataclass(frozen=True, slots=True)
class Control:
    """The rules over one registry; ``compute_api`` is ``None`` where there is no message bus."""

    registry: Registry
    compute_api: ComputeAPI | None
    down_after: float = DOWN_AFTER

    def switch(self, host: str, *, enabled: bool, reason: str | None = None) -> Switched:
        """Disable or enable a host.

        :raises RegistryError: the record could not be changed; nothing else was done then.
        """
        record = self.registry.set_status(host, disabled=not enabled, reason=reason)
        done = self._call(record)
        LOG.info("%s is %s now (%s)", host, record.status, done.answer or done.why_not)
        return done

    def _call(self, record: ServiceRecord) -> Switched:
        why_not = reason_not_to_call(record, self.down_after)
        if why_not is not None:
            return Switched(record, called=False, why_not=why_not)
        if self.compute_api is None:
            return Switched(record, called=False, why_not=f"there is no message bus; {LATER}")
        try:
            answer = self.compute_api.set_host_enabled(
                record.host, not record.disabled, record_version=record.version
            )
        except Exception as err:  # noqa: BLE001  the record stands, whatever became of the call
            return Switched(record, called=True, why_not=f"{err}; {LATER}")
        return Switched(record, called=True, answer=answer)


def reason_not_to_call(record: ServiceRecord, down_after: float = DOWN_AFTER) -> str | None:
    """Why this agent is left alone, or ``None``."""
    if record.last_seen is None:
        return f"{record.host} has never been up; its agent reads the record when it starts"
    if record.forced_down:
        return f"{record.host} is forced down; {LATER}"
    if not record.is_up(down_after):
        return f"{record.host} is down; its agent reads the record when it starts"
    version = _version(record.rpc_version)
    if version is None:
        return f"nobody knows which RPC version {record.host} speaks; it takes its time to follow"
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
