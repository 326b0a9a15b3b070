"""Who this host is in Placement: the ``compute_id`` file, and the UUIDs of its roots.

The file is written once and never guessed again.  A host that lost it gets a new
UUID, whose name Placement then refuses; the error says what to do.
"""

from __future__ import annotations

import os
import uuid as uuidlib
from collections.abc import Iterable, Mapping
from pathlib import Path

from reportclient.model import canonical_uuid

FILE_NAME = "compute_id"


class IdentityError(Exception):
    """The ``compute_id`` file can't be used; nothing is reported until it is mended."""


def compute_id(state_path: Path) -> str:
    """The UUID in the file; a new one is written if there is no file.

    :raises IdentityError: naming the file.
    """
    path = state_path / FILE_NAME
    try:
        return _read(path)
    except FileNotFoundError:
        return _write_once(path, str(uuidlib.uuid4()))
    except OSError as err:
        raise IdentityError(f"{path}: {err.strerror}") from err


def known_compute_id(state_path: Path) -> str:
    """The UUID in the file, or an empty text if there is none; nothing is ever written.

    :raises IdentityError: naming the file.
    """
    path = state_path / FILE_NAME
    try:
        return _read(path)
    except FileNotFoundError:
        return ""
    except OSError as err:
        raise IdentityError(f"{path}: {err.strerror}") from err


def _read(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace").strip()
    try:
        return canonical_uuid(text, str(path))
    except ValueError as err:
        raise IdentityError(
            f"{err}; write the UUID of this host's resource provider into it, "
            "or remove it if Placement does not know this host"
        ) from None


def _write_once(path: Path, value: str) -> str:
    """Link a complete file into place, so that neither a crash nor a twin leaves half of one."""
    scratch = path.with_name(f".{FILE_NAME}.{value}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            _write(scratch, value)
            os.link(scratch, path)
        finally:
            scratch.unlink(missing_ok=True)
        _sync(path.parent)
    except FileExistsError:
        return _read(path)
    except OSError as err:
        raise IdentityError(
            f"{path} can't be written: {err.strerror}; state_path has to be a directory "
            "that this user may write to, with some space left"
        ) from err
    return value


def _write(path: Path, value: str) -> None:
    with path.open("w", encoding="utf-8") as file:
        file.write(value + "\n")
        file.flush()
        os.fsync(file.fileno())


def replace_compute_id(state_path: Path, value: str) -> None:
    """Write another UUID into the file; only for an operator who says so.

    :raises IdentityError: naming the file.
    """
    path = state_path / FILE_NAME
    scratch = path.with_name(f".{FILE_NAME}.new")
    try:
        state_path.mkdir(parents=True, exist_ok=True)
        _write(scratch, value)
        scratch.replace(path)
        _sync(state_path)
    except OSError as err:
        raise IdentityError(f"{path} can't be written: {err.strerror}") from err


def _sync(directory: Path) -> None:
    """Placement may remember the UUID from now on; a power cut must not take the file's name."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def root_uuids(
    nodes: Iterable[str], own: str, told: Mapping[str, str], known: Mapping[str, str]
) -> dict[str, str]:
    """UUIDs of the root providers by node name.

    ``told`` are those that a driver knows itself, ``known`` those that were reported
    before; both by node name.  Else the only node that there ever was gets the host's
    ``own`` one, also under a new name; with several, a node named by a UUID keeps it and
    others get one that is made from the host's and the name.
    """
    names = list(nodes)
    alone = len(names) == 1 and len(known) <= 1
    return {
        name: told.get(name) or known.get(name) or (own if alone else _made(name, own))
        for name in names
    }


def _made(name: str, own: str) -> str:
    try:
        return canonical_uuid(name, "node")
    except ValueError:
        return str(uuidlib.uuid5(uuidlib.UUID(own), name))
