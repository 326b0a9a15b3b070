"""Whether this host is disabled, as its agent has kept it; the registry is not asked."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from agent.cli.shared.command_session import Session
from agent.switching.service_file import ServiceFile, ServiceFileUnreadable
from agent.told.conditions import Condition


@dataclass(frozen=True, slots=True)
class KnownStatus:
    """``disabled`` is ``None`` where nobody has said; ``unreadable`` says what is wrong then."""

    disabled: bool | None
    unreadable: str | None = None

    @classmethod
    def of(cls, session: Session) -> KnownStatus:
        """From ``service.json`` in the state directory.  Never raises."""
        try:
            return cls(ServiceFile.of(session.settings.state_path).load().disabled)
        except ServiceFileUnreadable as err:
            return cls(None, str(err))

    def conditions(self) -> Iterator[Condition]:
        """What keeps a plan from foreseeing the trait."""
        if self.unreadable is not None:
            yield Condition(
                f"whether this host is disabled is not known: {self.unreadable}; compute-agent "
                "writes the file anew when it hears from the registry"
            )
