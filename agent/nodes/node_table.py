"""``nodes.json`` in the state directory: which node has which UUID in Placement.

A node that was reported once keeps its UUID, however many others come and go.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.nodes.identity import IdentityError, root_uuids
from reportclient.model import canonical_uuid

LOG = logging.getLogger(__name__)

FILE_NAME = "nodes.json"
VERSION = 1


@dataclass(slots=True)
class NodeTable:
    """UUIDs by node name; without a ``path`` they are known until the process ends."""

    path: Path | None = None
    writing: bool = True
    """False for who only looks."""
    _known: dict[str, str] | None = None
    _own: str = field(default="", repr=False)
    _unwritable: bool = False

    @classmethod
    def of(cls, state_path: Path, *, writing: bool = True) -> NodeTable:
        """The table of the agent with this state directory."""
        return cls(state_path / FILE_NAME, writing)

    def uuids(self, nodes: list[str], own: str, told: Mapping[str, str]) -> dict[str, str]:
        """UUIDs of the roots by node name, kept from now on; see :func:`root_uuids`.

        :raises IdentityError: the file is there and can't be used; naming it.
        """
        known = self._load(own) if self._known is None else self._known
        found = root_uuids(nodes, own, told, known)
        others = {name: uuid for name, uuid in known.items() if uuid not in found.values()}
        table = {**others, **found}
        if table != self._known or own != self._own or self._unwritable:
            self._known, self._own = table, own
            self._keep()
        return found

    @property
    def has_many(self) -> bool:
        """Whether this host had several nodes at some time."""
        return len(self._known or ()) > 1

    def forget(self, uuid: str) -> None:
        """The node with this UUID is gone for good."""
        kept = {name: known for name, known in (self._known or {}).items() if known != uuid}
        if kept != self._known:
            self._known = kept
            self._keep()

    def _load(self, own: str) -> dict[str, str]:
        if self.path is None:
            return {}
        try:
            return _parsed(json.loads(self.path.read_bytes()), own)
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, LookupError, AttributeError) as err:
            raise IdentityError(
                f"{self.path} can't be read ({err}); mend it, or remove it if this host never "
                "had more than one node"
            ) from err

    def _keep(self) -> None:
        """A full disk stops nobody from reporting; it is told once, and tried again."""
        if self.path is None or not self.writing:
            return
        table = {"version": VERSION, "own": self._own, "nodes": self._known}
        text = json.dumps(table, indent=1, sort_keys=True)
        try:
            _replace(self.path, text)
        except OSError as err:
            if not self._unwritable:
                LOG.warning("The UUIDs of the nodes can't be kept: %s", err)
            self._unwritable = True
        else:
            self._unwritable = False


def _replace(path: Path, text: str) -> None:
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    scratch = path.with_name(f".{FILE_NAME}")
    with scratch.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


def _parsed(found: Mapping[str, Any], own: str) -> dict[str, str]:
    """The host's own UUID may have changed since, by ``computectl adopt``."""
    if found["version"] != VERSION:
        raise ValueError(f"version {found['version']!r} is not known here")
    was = canonical_uuid(found["own"], "own")
    uuids = {name: canonical_uuid(uuid, name) for name, uuid in found["nodes"].items()}
    return {name: own if uuid == was else uuid for name, uuid in uuids.items()}
