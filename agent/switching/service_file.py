"""``service.json``: this host's status, while the registry is away and after a kill."""

from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Any

from agent.state.document import Document
from agent.switching.machine import ServiceStatus

FILE_NAME = "service.json"
_KEYS = ("disabled", "reason", "record_version", "told", "by_program")
"""Keys of the fields of :class:`ServiceStatus`, in their order."""


@dataclass(frozen=True, slots=True)
class ServiceFile:
    """In the state directory."""

    document: Document

    @classmethod
    def of(cls, state_path: Path) -> "ServiceFile":
        """The file of the agent with this state directory."""
        return cls(Document(state_path / FILE_NAME))

    @property
    def path(self) -> Path:
        """Where it is."""
        return self.document.path

    def load(self) -> ServiceStatus:
        """Return the saved status; an unknown one if there is no file.

        :raises agent.state.document.Unusable: naming the file.
        """
        return self.document.load(_parsed) or ServiceStatus()

    def keep(self, status: ServiceStatus) -> None:
        """Write it so that neither a crash nor a power cut takes it away.  :raises OSError:"""
        self.document.save(dict(zip(_KEYS, astuple(status), strict=True)))


def _parsed(fields: Mapping[str, Any]) -> ServiceStatus:
    if not isinstance(fields["disabled"], bool | None):
        raise TypeError(f"disabled is {fields['disabled']!r}")
    return ServiceStatus(*(fields[key] for key in _KEYS))
