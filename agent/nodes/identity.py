"""The identity of this host in Placement: the ``compute_id`` file, and the UUIDs of its roots.

``compute_id`` is written once, as one line without a checksum, like Nova's.  ``nodes.json`` has the
same UUID, with a checksum.  If one file is lost, the other is used; if they differ, the agent does
not start until an operator has run ``computectl adopt``.

``nodes.json`` also has the UUID of each node, which stays when other nodes come and go.  If another
machine wrote it, it is a copy, and both hosts have the same UUIDs.
"""

import errno
import logging
import os
import uuid as uuidlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from agent.state import files
from agent.state.document import Document, Unusable, without_file
from reportclient.model import canonical_uuid

LOG = logging.getLogger("compute_agent.placement")

FILE_NAME = "compute_id"
NODES = "nodes.json"
_TEMPORARY = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.ENOMEM})


class IdentityError(Exception):
    """``compute_id`` or ``nodes.json`` can't be used; nothing is reported until it is corrected."""


class RootTaken(Exception):
    """Another host has this root, or may have it: nothing is written.  Next: the operator."""


COPIED = (
    "nothing is written to the root provider {root}: another machine wrote {path}, as "
    "/etc/machine-id says. If it was copied from a host that is still used, empty {path}; if this "
    "host has replaced that machine, or was reinstalled: computectl adopt {root}"
)
"""Why nothing is written to a root (UUID) of a state directory (``path``)."""


class IdentityNotReady(IdentityError):
    """The files can't be used now, as on a full disk; the next start may succeed."""


def refuse_unreadable(state_path: Path) -> None:
    """:raises IdentityError: this user may not read the state directory or one of its files."""
    for path in (state_path, state_path / FILE_NAME, *state_path.glob("*.json")):
        mode = os.R_OK | os.X_OK if path is state_path else os.R_OK
        if path.exists() and not os.access(path, mode, effective_ids=True):
            why = errno.EACCES if path.is_dir() or path is not state_path else errno.ENOTDIR
            err = OSError(why, os.strerror(why), str(path))
            raise IdentityError(f"{path}: {files.describe_error(err)}")


def compute_id(state_path: Path) -> str:
    """Return the UUID of this host; write a new one if it has none.

    :raises IdentityNotReady: the file can't be used now, as on a full disk.
    :raises IdentityError: the file can't be used.
    """
    path = state_path / FILE_NAME
    saved = saved_compute_id(state_path)
    if saved and path.exists():
        return saved
    if saved:
        LOG.warning("%s is missing: writing it again with the UUID from %s", path, NODES)
    try:
        files.replace(path, (saved or str(uuidlib.uuid4())).encode() + b"\n")
        return _read(path)
    except OSError as err:
        raise _error(
            f"{path} can't be written: {files.describe_error(err)}; state_path has to be a "
            "directory that this user may write to, with some space left",
            err,
        ) from err


def saved_compute_id(state_path: Path) -> str:
    """Return the UUID of this host, or an empty text if it has none.  Read-only.

    :raises IdentityError: a file can't be used.
    """
    path = state_path / FILE_NAME
    table = _load_table(Document(state_path / NODES, writing=False))
    in_table = table[0] if table else ""
    try:
        own = _read(path, in_table)
    except (FileNotFoundError, NotADirectoryError):
        return in_table
    except OSError as err:
        raise _error(f"{path}: {files.describe_error(err)}", err) from err
    if in_table not in ("", own):
        raise IdentityError(
            f"{path} has {own}, and {state_path / NODES} has {in_table}: one of them is damaged "
            f"or was changed by hand; run `computectl adopt` with the right UUID"
        )
    return own


def saved_nodes(state_path: Path) -> Mapping[str, str]:
    """Return the UUIDs of the nodes that this host reported last, by name.  Read-only.

    :raises IdentityError: a file can't be used.
    """
    table = _load_table(Document(state_path / NODES, writing=False))
    return table[1] if table else {}


def replace_compute_id(state_path: Path, value: str) -> None:
    """Make ``value`` the UUID of the host, and of the node that had the host's UUID.

    Only for an operator's command: what another machine had saved is this host's then.

    :raises IdentityError: a file can't be used.
    """
    path, document = state_path / FILE_NAME, Document(state_path / NODES)
    try:
        state_path.mkdir(parents=True, exist_ok=True)
        table = _load_table(document)
        if table is not None:
            document.save({"own": value, "nodes": _moved(*table, value)})
        files.replace(path, value.encode() + b"\n")
    except OSError as err:
        raise _error(f"{path} can't be written: {files.describe_error(err)}", err) from err


def _load_table(document: Document) -> tuple[str, dict[str, str]] | None:
    """Return the UUIDs of the host and of its nodes by name; ``None`` without a file.

    :raises IdentityError: the file can't be read or is damaged.
    """

    def parse(fields: Mapping[str, Any]) -> tuple[str, dict[str, str]]:
        nodes = {name: canonical_uuid(uuid, name) for name, uuid in fields["nodes"].items()}
        return canonical_uuid(fields["own"], "own"), nodes

    try:
        return document.read(parse)
    except Unusable as err:
        if isinstance(err.__cause__, OSError):
            raise _error(str(err), err.__cause__) from err
        own = document.path.with_name(FILE_NAME)
        raise IdentityError(
            f"{err}; restore it, or remove it if {own} is right and this host never had more "
            "than one node"
        ) from err


def _moved(was: str, nodes: Mapping[str, str], own: str) -> dict[str, str]:
    """Return the UUIDs of the nodes after the host's changed from ``was`` to ``own``."""
    return {name: own if uuid == was else uuid for name, uuid in nodes.items()}


def _read(path: Path, in_table: str = "") -> str:
    text = files.read(path).decode(errors="replace").strip()
    try:
        return canonical_uuid(text, str(path))
    except ValueError as err:
        hint = f" ({NODES} has {in_table})" if in_table else ""
        raise IdentityError(
            f"{err}; write the UUID of this host's resource provider into it{hint}, "
            f"or empty {path.parent} if Placement does not know this host"
        ) from None


def _error(text: str, cause: BaseException | None) -> IdentityError:
    passes = getattr(cause, "errno", None) in _TEMPORARY
    return (IdentityNotReady if passes else IdentityError)(text)


def _new_uuid(name: str, own: str) -> str:
    try:
        return canonical_uuid(name, "node")
    except ValueError:
        return str(uuidlib.uuid5(uuidlib.UUID(own), name))


@dataclass(slots=True)
class NodeTable:
    """The UUIDs of the nodes, by name."""

    owns_roots: ClassVar[bool] = True
    """Whether this agent creates the roots; else see :mod:`agent.nodes.foreign_roots`."""

    document: Document = field(default_factory=without_file)
    awaited: dict[str, Exception] = field(default_factory=dict)
    """Why a node has no UUID, by name."""
    _uuids: dict[str, str] | None = None
    _own: str = field(default="", repr=False)

    @classmethod
    def in_directory(cls, state_path: Path, *, writing: bool = True) -> "NodeTable":
        """Return the table of the agent with this state directory; nothing is read yet."""
        return cls(Document(state_path / NODES, writing=writing))

    def uuids(self, nodes: list[str], own: str, from_driver: Mapping[str, str]) -> dict[str, str]:
        """Return and save the UUIDs of the roots by node name.

        A node's UUID is, in this order: the driver's (``from_driver``, by node name); the node's
        last one, unless another node has it now; the host's (``own``) if the host never had another
        node; the node's name if it is a UUID; a UUID generated from ``own`` and the name.  The last
        one is also that of a name which differs only in the case of letters.

        :raises IdentityError: the file exists and can't be used, or two nodes have one UUID.
        """
        before = self._uuids
        if before is None:
            saved = _load_table(self.document)
            before = _moved(*saved, own) if saved else {}  # the host's own may have changed since
        folded = {name.casefold(): uuid for name, uuid in before.items() if name not in nodes}
        names = {from_driver[name]: name for name in nodes if name in from_driver}
        now = {}
        for name in nodes:
            last = before.get(name) or folded.get(name.casefold())
            if not last and len(nodes) == 1 and len(before) <= 1:
                last = own
            if names.get(last or "", name) != name:
                last = None
            uuid = now[name] = from_driver.get(name) or last or _new_uuid(name, own)
            if (other := names.setdefault(uuid, name)) != name:
                raise IdentityError(f"nodes {other} and {name} have one UUID, {uuid}: rename one")
        others = {name: uuid for name, uuid in before.items() if uuid not in now.values()}
        table = {**others, **now}
        if table != self._uuids or own != self._own or self.document.problem:
            self._uuids, self._own = table, own
            self.save()
        return now

    @property
    def has_many(self) -> bool:
        """Whether the host has, or had, other nodes than the one that has its UUID."""
        uuids = (self._uuids or {}).values()
        return len(uuids) > 1 or any(uuid != self._own for uuid in uuids)

    def note_deleted(self, node: str) -> None:
        """Note that a node's root is not in Placement: this agent creates it with the same UUID."""

    def forget(self, uuid: str) -> None:
        """Remove the node with this UUID from the table."""
        others = {name: other for name, other in (self._uuids or {}).items() if other != uuid}
        if others != self._uuids:
            self._uuids = others
            self.save()

    def is_copied(self, saved: Document | None) -> bool:
        """Return whether another machine saved the table; ``saved`` is a root's document.

        :raises IdentityError: the file exists and can't be used.
        """
        if self._uuids is None:
            _load_table(self.document)
        return self.document.of_other_machine

    def take_over(self) -> None:
        """Note that this host may write to all roots of another machine's table: it is its own."""
        if self.document.of_other_machine:
            self.document.of_other_machine = False
            self.save()

    def save(self) -> None:
        """Save the table, unless the file has it, or is another machine's."""
        if self.document.of_other_machine:
            return
        nodes = dict(sorted((self._uuids or {}).items()))
        otherwise = "a node may get another UUID after the next start"
        self.document.save_or_warn({"own": self._own, "nodes": nodes}, otherwise)
