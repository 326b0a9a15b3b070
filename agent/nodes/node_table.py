"""``nodes.json`` in the state directory: which node has which UUID in Placement.

A node that was reported once keeps its UUID, however many others come and go.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from agent.nodes.identity import NODES as FILE_NAME
from agent.nodes.identity import IdentityError, moved, node_document, nodes_of, root_uuids
from agent.state.document import Document, Unusable

__all__ = ["FILE_NAME", "NodeTable"]


@dataclass(slots=True)
class NodeTable:
    """UUIDs by node name; without a ``document`` they are known until the process ends."""

    document: Document | None = None
    _known: dict[str, str] | None = None
    _own: str = field(default="", repr=False)

    @classmethod
    def of(cls, state_path: Path, *, writing: bool = True) -> "NodeTable":
        """The table of the agent with this state directory."""
        return cls(node_document(state_path, writing=writing))

    def uuids(self, nodes: list[str], own: str, told: Mapping[str, str]) -> dict[str, str]:
        """UUIDs of the roots by node name, kept from now on; see :func:`root_uuids`.

        :raises IdentityError: the file is there and can't be used; naming it.
        """
        known = self._load(own) if self._known is None else self._known
        found = root_uuids(nodes, own, told, known)
        others = {name: uuid for name, uuid in known.items() if uuid not in found.values()}
        table = {**others, **found}
        if table != self._known or own != self._own or self._is_unwritable():
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
        """The host's own UUID may have changed since."""
        if self.document is None:
            return {}
        try:
            kept = self.document.load(nodes_of)
        except Unusable as err:
            raise IdentityError(
                f"{err}; mend it, or remove it if this host never had more than one node"
            ) from err
        return moved(*kept, own) if kept else {}

    def _is_unwritable(self) -> bool:
        return self.document is not None and self.document.unwritable

    def _keep(self) -> None:
        if self.document is not None:
            nodes = dict(sorted((self._known or {}).items()))
            otherwise = "a node may get another UUID after the next start"
            self.document.keep({"own": self._own, "nodes": nodes}, otherwise)
