"""``service.json``: the saved status of this host, for restarts while the registry is away."""

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
    """The file in the state directory."""

    document: Document

    @classmethod
    def in_directory(cls, state_path: Path) -> "ServiceFile":
        """Return the file of the agent with this state directory."""
        return cls(Document(state_path / FILE_NAME))

    @property
    def path(self) -> Path:
        """The path of the file."""
        return self.document.path

    def load(self) -> ServiceStatus:
        """Return the saved status; an unknown one if there is no file.

        :raises agent.state.document.Unusable: naming the file.
        """
        return self.document.load(_parsed) or ServiceStatus()

    def save(self, status: ServiceStatus) -> None:
        """Save a status so that it survives a crash and a power cut.  :raises OSError:"""
        self.document.save(dict(zip(_KEYS, astuple(status), strict=True)))


def _parsed(fields: Mapping[str, Any]) -> ServiceStatus:
    if not isinstance(fields["disabled"], bool | None):
        raise TypeError(f"disabled is {fields['disabled']!r}")
    return ServiceStatus(*(fields[key] for key in _KEYS))
