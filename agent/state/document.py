"""A JSON object in a file, with a version, a checksum, and where it was written.

``machine`` and ``file`` in it tell a file that was copied, or restored from a backup, from the one
that was written last: what a copy says may have changed since, without the agent's knowledge.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID, uuid5

from agent.state import files
from reportclient.forms import DAMAGE, sealed, unsealed

LOG = logging.getLogger("compute_agent.service")

T = TypeVar("T")

MACHINE_ID = Path("/etc/machine-id")


def machine_id() -> str:
    """Return a number of this machine; empty if it has none, as in images and containers.

    It is made from its machine-id, which machine-id(5) wants to stay on the machine.
    """
    try:
        return str(uuid5(UUID(files.read_anywhere(MACHINE_ID).decode().strip()), "compute-agent"))
    except (OSError, ValueError):  # absent, empty, or "uninitialized"
        return ""


class Unusable(Exception):
    """The file exists but can't be used; the text names it and the reason.

    The cause is an ``OSError`` if it can't be read now.
    """


class Damaged(Unusable):
    """The content is not what was written."""


@dataclass(slots=True)
class Document:
    """A file of the state directory."""

    path: Path
    version: int = 1
    writing: bool = True
    """False: the document is read-only, also once it is one of a later version."""
    problem: str = field(default="", init=False)
    """Why the last :meth:`save_or_warn` failed; empty if it did not."""
    of_other_machine: bool = field(default=False, init=False)
    """Whether the file that was read was written on another machine."""
    _on_disk: bytes | None = field(default=None, init=False, repr=False)

    def read(self, parse: Callable[[Mapping[str, Any]], T], *, no_copy: bool = False) -> T | None:
        """Return the result of ``parse`` for the fields; ``None`` if there is no file.

        With ``no_copy`` a file that was copied, or restored from a backup, counts as damaged.

        :raises Unusable: it can't be read, or is one of a later version; Damaged if it is damaged.
        """
        self.of_other_machine = False
        try:
            data, file = files.read_with_identity(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as err:
            raise Unusable(f"{self.path} can't be read: {files.describe_error(err)}") from err
        try:
            fields = dict(unsealed(data))
            version = fields.get("version")
            if isinstance(version, int) and version > self.version:
                self.writing = False
                raise Unusable(
                    f"{self.path} has version {version}, and this compute-agent reads "
                    f"{self.version}: a later compute-agent wrote it; use that version, or move "
                    "the file away"
                )
            if version != self.version:
                raise ValueError(f"it has version {version!r}, not {self.version}")
            written_on, written_to = fields.pop("machine"), fields.pop("file")
            parsed = parse(fields)
        except DAMAGE as err:
            why = f"it has no field {err}" if isinstance(err, KeyError) else str(err)
            raise Damaged(f"{self.path} is damaged: {why}") from err
        machine = machine_id()
        self.of_other_machine = "" not in (machine, written_on) and machine != written_on
        if no_copy and (self.of_other_machine or written_to != file):
            raise Damaged(f"{self.path} was copied, or restored from a backup")
        self._on_disk = sealed(fields) if (written_on, written_to) == (machine, file) else None
        return parsed

    def save(self, fields: Mapping[str, Any]) -> None:
        """Replace the file, unless it has these fields already or the document is read-only.

        :raises OSError: it can't be written.
        """
        if not self.writing:
            return
        content = {"version": self.version, **fields}
        data = sealed(content)
        if data != self._on_disk or not self.path.exists():
            self._on_disk, origin = None, {"machine": machine_id()}
            files.replace(self.path, lambda file: sealed({**content, **origin, "file": file}))
            self._on_disk = data
            self.of_other_machine = False

    def save_or_warn(self, fields: Mapping[str, Any], otherwise: str) -> None:
        """Save, and log a warning instead of raising if the file can't be written.

        The warning is logged once and ends with its consequence, ``otherwise``.  Each call tries
        again.
        """
        try:
            self.save(fields)
        except OSError as err:
            why = files.describe_error(err)
            if not self.problem:
                LOG.warning("%s can't be written (%s): %s", self.path, why, otherwise)
            self.problem = f"{self.path} can't be written: {why}"
        else:
            if self.writing:  # a later version's file lacks what is known now
                self.problem = ""

    def remove(self) -> None:
        """Remove the file; if it can't be removed, the problem says why."""
        if not self.writing:
            return
        self._on_disk = None
        try:
            files.remove(self.path)
        except OSError as err:
            self.problem = f"{self.path} can't be removed: {files.describe_error(err)}"


def without_file() -> Document:
    """Return a document that is never there, and never written."""
    return Document(Path("/dev/null/nowhere"), writing=False)
