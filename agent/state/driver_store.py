"""Documents that drivers keep over a restart: ``driver-NAME.json`` in the state directory."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.state.document import Document, Unusable

LOG = logging.getLogger(__name__)

_SAVED = "saved"
"""Apart from the document's own fields, so that a driver may call its fields as it likes."""


@dataclass(slots=True)
class DriverStore:
    """The :class:`drivers.api.Store` of the agent with this state directory."""

    state_path: Path
    writing: bool = True
    """False: read only."""
    _documents: dict[str, Document] = field(default_factory=dict)

    def load(self, name: str) -> Mapping[str, Any] | None:
        """See :class:`drivers.api.Store`."""
        try:
            return self._document(name).load(lambda fields: dict(fields[_SAVED]))
        except Unusable as err:
            LOG.warning("%s; it is as if nothing had been kept", err)
            return None

    def save(self, name: str, fields: Mapping[str, Any]) -> None:
        """See :class:`drivers.api.Store`."""
        self._document(name).keep({_SAVED: dict(fields)}, "it is not known after the next start")

    def problems(self) -> list[str]:
        """Why documents can't be written, of those that can't."""
        return [one.problem for one in self._documents.values() if one.problem]

    def _document(self, name: str) -> Document:
        path = self.state_path / f"driver-{name}.json"
        return self._documents.setdefault(name, Document(path, writing=self.writing))
