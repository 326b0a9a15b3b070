"""Draw provider trees as text."""

from __future__ import annotations
from collections.abc import Mapping
from reportclient.snapshot import Snapshot


def draw_tree(
    snapshot: Snapshot, root: str, usages: Mapping[str, Mapping[str, int]] | None = None
) -> str:
    return "\n".join(
        f"{p.name} {p.uuid} {dict(p.inventory)} {sorted(p.traits)}" for p in snapshot.walk(root)
    )
