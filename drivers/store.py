"""What a driver remembers over a restart; the agent writes it, under ``state_path``."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol


class Store(Protocol):
    """JSON objects by name; the name begins with the driver's."""

    def load(self, name: str) -> Mapping[str, Any] | None:
        """What was saved last; ``None`` if nothing was, or it is damaged (which is logged)."""

    def save(self, name: str, fields: Mapping[str, Any]) -> None:
        """Replace it, safe from crashes; what can't be written is logged once."""


@dataclass(slots=True)
class InMemory:
    """A store for tests, and for where no agent is: it ends with the process."""

    saved: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def load(self, name: str) -> Mapping[str, Any] | None:
        """See :class:`Store`."""
        return self.saved.get(name)

    def save(self, name: str, fields: Mapping[str, Any]) -> None:
        """See :class:`Store`."""
        self.saved[name] = dict(fields)
