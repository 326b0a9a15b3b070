"""A JSON object in a file, with a version and a checksum."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from agent.state import files
from reportclient.saved_view import DAMAGE, sealed, unsealed

LOG = logging.getLogger("compute_agent.service")

T = TypeVar("T")


class Unusable(Exception):
    """The file exists but can't be used; the text names it and the reason."""


class Damaged(Unusable):
    """The content is not what was written."""


class Unreadable(Unusable):
    """The file can't be read now."""


class Later(Unusable):
    """A later version of the agent wrote the file: it is not changed."""

    def __init__(self, path: Path, version: int, own_version: int) -> None:
        super().__init__(
            f"{path} has version {version}, and this compute-agent reads {own_version}: a later "
            "compute-agent wrote it; use that version, or move the file away"
        )


@dataclass(slots=True)
class Document:
    """A file of the state directory."""

    path: Path
    version: int = 1
    writing: bool = True
    """False: the document is read-only."""
    problem: str = field(default="", init=False)
    """Why the last :meth:`save_or_warn` failed; empty if it did not."""
    _on_disk: bytes | None = field(default=None, init=False, repr=False)
    _refused: bool = field(default=False, init=False)

    def read(self, parse: Callable[[Mapping[str, Any]], T]) -> T | None:
        """Return the result of ``parse`` for the fields; ``None`` if there is no file.

        :raises Unusable: one of its kinds.
        """
        try:
            data = files.read(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            raise Unreadable(f"{self.path} can't be read: {files.describe_error(err)}") from err
        try:
            parsed = parse(self._checked(unsealed(data)))
        except DAMAGE as err:
            raise Damaged(f"{self.path} is damaged: {err}") from err
        self._on_disk = data
        return parsed

    def save(self, fields: Mapping[str, Any]) -> None:
        """Replace the file, unless it has these fields already or the document is read-only.

        :raises OSError: it can't be written.
        """
        if not self.writing or self._refused:
            return
        data = sealed({"version": self.version, **fields})
        if data != self._on_disk or not self.path.exists():
            self._on_disk = None
            files.replace(self.path, data)
            self._on_disk = data

    def save_or_warn(self, fields: Mapping[str, Any], otherwise: str) -> None:
        """Save, and log a warning instead of raising if the file can't be written.

        The warning is logged once and ends with its consequence, ``otherwise``.  Each call tries
        again.
        """
        try:
            self.save(fields)
        except OSError as err:
            if not self.problem:
                LOG.warning(
                    "%s can't be written (%s): %s", self.path, files.describe_error(err), otherwise
                )
            self.problem = f"{self.path} can't be written: {files.describe_error(err)}"
        else:
            if not self._refused:  # a later version's file stays, and lacks what is known now
                self.problem = ""

    def remove(self) -> None:
        """Remove the file; if it can't be removed, the problem says why."""
        if not self.writing or self._refused:
            return
        self._on_disk = None
        try:
            files.remove(self.path)
        except OSError as err:
            self.problem = f"{self.path} can't be removed: {files.describe_error(err)}"

    def _checked(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        version = fields.get("version")
        if isinstance(version, int) and version > self.version:
            self._refused = True
            raise Later(self.path, version, self.version)
        if version != self.version:
            raise ValueError(f"it has version {version!r}, not {self.version}")
        return fields


def without_file() -> Document:
    """Return a document that is never there, and never written."""
    return Document(Path("/dev/null/nowhere"), writing=False)
