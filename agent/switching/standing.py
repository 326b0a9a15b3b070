"""Whether this host takes new guests, as it is kept on disk; and what a record changes about it.

The registry's record is the truth for everybody; this file is what holds while the
registry is away, and what a killed agent finds again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from agent.registry.record import AUTO, ServiceRecord
from agent.state.document import Document, Unusable

FILE_NAME = "service.json"
VERSION = 1
UNTOUCHED = 1
"""Version of a record whose status nobody has changed."""
FOUND = "found disabled in Placement"


class StandingUnreadable(Exception):
    """The file is there and says nothing that can be used."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The last known status of this service; ``disabled`` is ``None`` before there was one.

    ``record_version`` is that of the record that was seen last.  ``told`` is false for
    what the registry has not acknowledged yet.
    """

    disabled: bool | None = None
    reason: str | None = None
    record_version: int | None = None
    told: bool = True
    by_program: bool = False
    """Nobody asked for it: it follows from the hypervisor."""

    @property
    def is_auto(self) -> bool:
        """Whether a program disabled it, which may enable it again."""
        return bool(self.disabled) and (self.reason or "").startswith(AUTO)

    def asked(self, *, disabled: bool, reason: str | None, by_program: bool) -> Standing:
        """After somebody wanted this; the registry does not know of it yet."""
        return Standing(disabled, reason, self.record_version, told=False, by_program=by_program)

    def precedes(self, version: int) -> bool:
        """Whether this version of the record is news."""
        return self.record_version is None or self.record_version < version

    def settled(self, *, found: bool) -> Standing | None:
        """For a host that nobody here has decided about: what Placement has is right."""
        if self.disabled is not None or self.record_version != UNTOUCHED:
            return None
        reason = FOUND if found else None
        return self.asked(disabled=found, reason=reason, by_program=True)

    def agrees_with(self, record: ServiceRecord) -> bool:
        """Whether the registry has it so."""
        same = bool(self.disabled) == record.disabled
        return same and self.is_auto == record.is_auto

    def outlives(self, record: ServiceRecord) -> bool:
        """Whether this host is disabled, and the record that would enable it is an older one.

        It was restored from a backup, or made anew by a heartbeat: whoever lost it did not
        decide to enable this host.  A record that disables it counts, whatever its age.
        """
        if not self.disabled or record.disabled or self.record_version is None:
            return False
        return record.version < self.record_version

    def yields_to(self, record: ServiceRecord) -> bool:
        """Whether somebody changed the record since it was last seen: then the record holds.

        And whether a program's wish meets a decision of the operator.
        """
        if self.by_program and record.disabled and not record.is_auto:
            return True
        return self.record_version is not None and self.record_version != record.version


def standing_of(record: ServiceRecord, seen: Standing) -> Standing:
    """What the registry says.

    A record that nobody has ever changed was made by a first heartbeat, and says nothing
    about a host that somebody may have disabled in Placement before.
    """
    if seen.disabled is None and not record.disabled and record.version == UNTOUCHED:
        return Standing(record_version=record.version)
    return Standing(record.disabled, record.disabled_reason, record.version)


_BEFORE = frozenset(each.name for each in fields(Standing))


@dataclass(frozen=True, slots=True)
class StandingFile:
    """``service.json`` in the state directory."""

    document: Document

    @classmethod
    def of(cls, state_path: Path) -> StandingFile:
        """The file of the agent with this state directory."""
        return cls(Document(state_path / FILE_NAME, VERSION, _BEFORE))

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.document.path

    def load(self) -> Standing:
        """What was kept; an unknown status if there is no file.

        :raises StandingUnreadable: naming the file.
        """
        try:
            return self.document.load(_parsed) or Standing()
        except Unusable as err:
            raise StandingUnreadable(str(err)) from err

    def keep(self, standing: Standing) -> None:
        """Write it so that neither a crash nor a power cut takes it away.  :raises OSError:"""
        self.document.save(asdict(standing))


def _parsed(found: Mapping[str, Any]) -> Standing:
    kept = {field.name: found[field.name] for field in fields(Standing)}
    if not isinstance(kept["disabled"], bool | None):
        raise TypeError(f"disabled is {kept['disabled']!r}")
    return Standing(**kept)
