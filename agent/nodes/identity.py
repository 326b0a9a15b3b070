"""The identity of this host in Placement: the ``compute_id`` file, and the UUIDs of its roots.

The file is written once and never guessed again.  It is one line, as Nova's is, and so
has no room for a checksum: ``nodes.json``, which has one, says the same UUID a second
time.  Where one of them is lost the other tells; where they differ an operator is asked.

``nodes.json`` also has the UUIDs of the nodes: one that was reported once keeps its UUID,
however many others come and go.
"""

import errno
import logging
import uuid as uuidlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.state import files
from agent.state.document import Document, Unreadable, Unusable
from reportclient.model import canonical_uuid

LOG = logging.getLogger(__name__)

FILE_NAME = "compute_id"
NODES = "nodes.json"
VERSION = 1
_PASSING = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM, errno.EACCES, errno.EPERM}
)


class IdentityError(Exception):
    """The ``compute_id`` file can't be used; nothing is reported until it is mended."""


class IdentityNotReady(IdentityError):
    """The same, for a reason that may pass: a full disk, another user's directory."""


def compute_id(state_path: Path) -> str:
    """The UUID of this host; a new one is written if it has none.

    :raises IdentityError: naming the file; IdentityNotReady if it may pass.
    """
    path = state_path / FILE_NAME
    kept = kept_compute_id(state_path)
    if kept and path.exists():
        return kept
    if kept:
        LOG.warning("%s is missing: writing it again with the UUID from %s", path, NODES)
    return _write_once(path, kept or str(uuidlib.uuid4()))


def kept_compute_id(state_path: Path) -> str:
    """The UUID of this host, or an empty text if it has none; nothing is ever written.

    :raises IdentityError: naming the file.
    """
    path = state_path / FILE_NAME
    kept = _kept(_document(state_path, writing=False))
    noted = kept[0] if kept else ""
    try:
        own = _read(path, noted)
    except (FileNotFoundError, NotADirectoryError):
        return noted
    except OSError as err:
        raise _error(f"{path}: {files.describe_error(err)}", err) from err
    if noted not in ("", own):
        raise IdentityError(
            f"{path} has {own}, and {state_path / NODES} has {noted}: one of them is damaged "
            f"or was changed by hand; run `computectl adopt` with the right one of the two"
        )
    return own


def kept_nodes(state_path: Path) -> Mapping[str, str]:
    """UUIDs of the nodes that this host reported last, by name; nothing is ever written.

    :raises IdentityError: naming the file.
    """
    kept = _kept(_document(state_path, writing=False))
    return kept[1] if kept else {}


def replace_compute_id(state_path: Path, value: str) -> None:
    """Make this UUID the host's; only for an operator who says so.

    The node that had the host's UUID has this one from now on.

    :raises IdentityError: naming the file.
    """
    path, document = state_path / FILE_NAME, _document(state_path)
    try:
        kept = _kept(document)
        if kept is not None:
            document.save({"own": value, "nodes": _moved(*kept, value)})
        files.replace(path, value.encode() + b"\n")
    except OSError as err:
        raise _error(f"{path} can't be written: {files.describe_error(err)}", err) from err


def _document(state_path: Path, *, writing: bool = True) -> Document:
    """``nodes.json``: the host's own UUID, and that of each of its nodes."""
    return Document(state_path / NODES, VERSION, writing)


def _kept(document: Document) -> tuple[str, dict[str, str]] | None:
    """The host's own UUID and those of its nodes by name.  :raises IdentityError: damaged."""
    try:
        return document.load(_parsed)
    except Unreadable as err:
        passes = getattr(err.__cause__, "errno", None) in _PASSING
        raise (IdentityNotReady if passes else IdentityError)(str(err)) from err
    except Unusable as err:
        own = document.path.with_name(FILE_NAME)
        raise IdentityError(
            f"{err}; restore it, or remove it if {own} is right and this host never had more "
            "than one node"
        ) from err


def _parsed(fields: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
    own = canonical_uuid(fields["own"], "own")
    return own, {name: canonical_uuid(uuid, name) for name, uuid in fields["nodes"].items()}


def _moved(was: str, nodes: Mapping[str, str], own: str) -> dict[str, str]:
    """UUIDs of the nodes of a host that had another one itself."""
    return {name: own if uuid == was else uuid for name, uuid in nodes.items()}


def _read(path: Path, noted: str) -> str:
    text = files.read(path).decode(errors="replace").strip()
    try:
        return canonical_uuid(text, str(path))
    except ValueError as err:
        told = f" ({NODES} has {noted})" if noted else ""
        raise IdentityError(
            f"{err}; write the UUID of this host's resource provider into it{told}, "
            f"or empty {path.parent} if Placement does not know this host"
        ) from None


def _write_once(path: Path, value: str) -> str:
    """Neither a crash nor a twin leaves half of one."""
    try:
        files.create(path, value.encode() + b"\n")
    except FileExistsError:
        return _read_twins(path)
    except OSError as err:
        raise _error(
            f"{path} can't be written: {files.describe_error(err)}; state_path has to be a "
            "directory that this user may write to, with some space left",
            err,
        ) from err
    return value


def _read_twins(path: Path) -> str:
    """Read ``compute_id`` that another process has just written."""
    try:
        return _read(path, "")
    except OSError as err:
        raise _error(f"{path}: {files.describe_error(err)}", err) from err


def _error(text: str, err: OSError) -> IdentityError:
    return (IdentityNotReady if err.errno in _PASSING else IdentityError)(text)


def root_uuids(
    nodes: Iterable[str], own: str, told: Mapping[str, str], before: Mapping[str, str]
) -> dict[str, str]:
    """UUIDs of the root providers by node name.

    ``told`` are those that a driver knows itself, ``before`` those that were reported
    earlier; both by node name.  Else the only node that there ever was gets the host's
    ``own`` one, also under a new name; with several, a node named by a UUID keeps it and
    others get one that is made from the host's and the name.
    """
    names = list(nodes)
    alone = len(names) == 1 and len(before) <= 1
    return {
        name: told.get(name) or before.get(name) or (own if alone else _made(name, own))
        for name in names
    }


def _made(name: str, own: str) -> str:
    try:
        return canonical_uuid(name, "node")
    except ValueError:
        return str(uuidlib.uuid5(uuidlib.UUID(own), name))


@dataclass(slots=True)
class NodeTable:
    """UUIDs by node name; without a ``document`` they last until the process ends."""

    document: Document | None = None
    _uuids: dict[str, str] | None = None
    _own: str = field(default="", repr=False)

    @classmethod
    def of(cls, state_path: Path, *, writing: bool = True) -> "NodeTable":
        """The table of the agent with this state directory."""
        return cls(_document(state_path, writing=writing))

    def uuids(self, nodes: list[str], own: str, told: Mapping[str, str]) -> dict[str, str]:
        """UUIDs of the roots by node name, kept from now on; see :func:`root_uuids`.

        :raises IdentityError: the file is there and can't be used; naming it.
        """
        before = self._load(own) if self._uuids is None else self._uuids
        now = root_uuids(nodes, own, told, before)
        others = {name: uuid for name, uuid in before.items() if uuid not in now.values()}
        table = {**others, **now}
        if table != self._uuids or own != self._own or self.problem:
            self._uuids, self._own = table, own
            self._keep()
        return now

    @property
    def problem(self) -> str:
        """Why the table can't be written; empty while it can."""
        return "" if self.document is None else self.document.problem

    @property
    def has_many(self) -> bool:
        """Whether this host had several nodes at some time."""
        return len(self._uuids or ()) > 1

    def forget(self, uuid: str) -> None:
        """The node with this UUID is gone for good."""
        left = {name: other for name, other in (self._uuids or {}).items() if other != uuid}
        if left != self._uuids:
            self._uuids = left
            self._keep()

    def _load(self, own: str) -> dict[str, str]:
        """The host's own UUID may have changed since."""
        kept = None if self.document is None else _kept(self.document)
        return _moved(*kept, own) if kept else {}

    def _keep(self) -> None:
        if self.document is not None:
            nodes = dict(sorted((self._uuids or {}).items()))
            otherwise = "a node may get another UUID after the next start"
            self.document.keep({"own": self._own, "nodes": nodes}, otherwise)
