"""Documents that drivers save over restarts: ``driver-NAME.json`` in the state directory."""

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.state.document import Document, Unusable
from drivers.driver import as_saved, checked_name

LOG = logging.getLogger("compute_agent.drivers")

_SAVED = "saved"
"""The key of the driver's fields, so that their names can't clash with the document's own."""


@dataclass(slots=True)
class DriverStore:
    """The agent's :class:`drivers.api.Store`."""

    state_path: Path
    writing: bool = True
    """False: the documents are read-only."""
    _documents: dict[str, Document] = field(default_factory=dict)

    def load(self, name: str) -> Mapping[str, Any] | None:
        """See :class:`drivers.api.Store`."""
        try:
            return self._document(name).read(lambda fields: dict(fields[_SAVED]))
        except Unusable as err:
            LOG.warning("%s; the driver starts without this saved document", err)
            return None

    def save(self, name: str, fields: Mapping[str, Any]) -> None:
        """See :class:`drivers.api.Store`."""
        self._document(name).save_or_warn(
            {_SAVED: as_saved(dict(fields))}, "after a restart the driver starts without it"
        )

    def problems(self) -> list[str]:
        """Return why documents can't be written; empty if all can."""
        documents = self._documents.values()
        return [document.problem for document in documents if document.problem]

    def _document(self, name: str) -> Document:
        path = self.state_path / f"driver-{checked_name(name)}.json"
        return self._documents.setdefault(name, Document(path, writing=self.writing))
