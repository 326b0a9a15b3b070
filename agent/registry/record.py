"""A service record, and what can be said about one.  Pure, and reads no clock.

Whether a service is up follows from ``silent_for``, which the registry's database works
out with its own clock when it reads the record.  So no two hosts' clocks are ever
compared, and how far they are apart does not matter.
"""

from dataclasses import dataclass
from datetime import datetime

from agent.registry.checks import AUTO
from reportclient.plain_text import plain

BINARY = "nova-compute"
"""What tools for operators know a compute service by."""
DOWN_AFTER = 60.0
"""Seconds without a heartbeat."""


@dataclass(frozen=True, slots=True)
class ServiceRecord:
    """The record of one compute service.

    ``roots`` are the UUIDs of its root providers.  ``address`` tells agents with the same
    host name apart.  ``version`` grows with each change of status, never by heartbeats; what
    an operator decides is not older than the second in which he does, so that it is later than
    anything that was decided before a restore from a backup.
    """

    id: int
    uuid: str
    host: str
    binary: str = BINARY
    disabled: bool = False
    disabled_reason: str | None = None
    disabled_at: datetime | None = None
    """Since when it is disabled (UTC, by the database's clock); ``None`` if nobody knows."""
    forced_down: bool = False
    rpc_version: str | None = None
    last_seen: datetime | None = None
    """The last heartbeat (UTC, by the database's clock); ``None`` if there never was one."""
    silent_for: float | None = None
    """Seconds between the last heartbeat and the moment when this record was read."""
    roots: tuple[str, ...] = ()
    address: str | None = None
    contested_by: str | None = None
    """The address of another agent with this host's name, refused within the last minute."""
    version: int = 1
    attached: bool = False
    """Whether its agent reports beside nova-compute, whose service Nova's API disables."""
    damaged: tuple[str, ...] = ()
    """Columns whose contents can't be read; what they stand for counts as unknown here."""

    def is_up(self, down_after: float = DOWN_AFTER) -> bool:
        """Whether it could be called, as far as anybody knows."""
        return not self.forced_down and is_alive(self, down_after)

    def state(self, *, up: bool) -> str:
        """``up`` or ``down``, and why it is down where that is not silence; see :meth:`is_up`."""
        return "forced down" if self.forced_down else "up" if up else "down"

    @property
    def status(self) -> str:
        """``enabled`` or ``disabled``."""
        return "disabled" if self.disabled else "enabled"

    @property
    def shown_status(self) -> str:
        """The status for people: of an attached host it is nova-compute's."""
        return "attached: Nova's" if self.attached else self.status

    @property
    def is_auto(self) -> bool:
        """Whether it was disabled by a program, which may enable it again."""
        return self.disabled and (self.disabled_reason or "").startswith(AUTO)


def is_alive(record: ServiceRecord, down_after: float = DOWN_AFTER) -> bool:
    """Whether heartbeats come, forced down or not."""
    return record.silent_for is not None and record.silent_for <= down_after


REPAIR = (
    "its agent's next heartbeat writes last_seen, roots and address anew, computectl service "
    "enable or disable the status; what stays is to be repaired in the table services"
)


def damage(record: ServiceRecord) -> str:
    """Return the columns of a damaged record that can't be read, as a sentence."""
    return f"The record of {plain(record.host)} is damaged: can't read {', '.join(record.damaged)}"
