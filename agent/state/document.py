"""A JSON object on disk that says its version and carries its own checksum."""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from agent.state import files
from reportclient.sealed import DAMAGE, sealed, unsealed

LOG = logging.getLogger(__name__)

T = TypeVar("T")


class Unusable(Exception):
    """The file is there and can't be used; the text names it and says why."""


class Damaged(Unusable):
    """The file has another content than what was written."""


class Unreadable(Unusable):
    """The file can't be read at present."""


class Later(Unusable):
    """A later version of the agent wrote it: it is left alone."""

    def __init__(self, path: Path, version: int, known: int) -> None:
        super().__init__(
            f"{path} has version {version}, and this one knows {known}: a later compute-agent "
            "wrote it; use that one, or move the file away"
        )


@dataclass(slots=True)
class Document:
    """A file of the state directory."""

    path: Path
    version: int = 1
    writing: bool = True
    """False: read only."""
    problem: str = field(default="", init=False)
    """Why the last :meth:`keep` failed; empty if it did not."""
    _on_disk: bytes | None = field(default=None, init=False, repr=False)
    _refused: bool = field(default=False, init=False)

    def load(self, parse: Callable[[Mapping[str, Any]], T]) -> T | None:
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
        """Replace the file, unless it says so already or somebody only looks.

        :raises OSError: it can't be written.
        """
        if not self.writing or self._refused:
            return
        data = sealed({"version": self.version, **fields})
        if data != self._on_disk or not self.path.exists():
            self._on_disk = None
            files.replace(self.path, data)
            self._on_disk = data

    def keep(self, fields: Mapping[str, Any], otherwise: str) -> None:
        """The same, where a full disk shall stop nobody: told once, tried at each call.

        ``otherwise`` says what comes of it.
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
            self.problem = ""

    def remove(self) -> None:
        """Nothing is kept any more.  :raises OSError:"""
        self._on_disk = None
        if self.writing and not self._refused and self.path.exists():
            files.remove(self.path)

    def _checked(self, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        version = fields.get("version")
        if isinstance(version, int) and version > self.version:
            self._refused = True
            raise Later(self.path, version, self.version)
        if version != self.version:
            raise ValueError(f"it has version {version!r}, not {self.version}")
        return fields
