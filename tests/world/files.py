"""The provider file of a host: its text, and what it adds to which provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.world.hypervisor import Hypervisor

CLASS, TRAIT = "CUSTOM_FILED", "CUSTOM_FILED_TRAIT"
NAME = "added.yaml"
BAD = "not a valid provider file"
_TEXT = """\
meta:
  schema_version: '1.0'
providers:
  - identification:
      {identification}
    inventories:
      additional:
        - CUSTOM_FILED:
            total: {total}
    traits:
      additional:
        - CUSTOM_FILED_TRAIT
"""


def text_for(host: str, part: str, total: int) -> str:
    name = f"name: {host}_{part}" if part else "uuid: $COMPUTE_NODE"
    return _TEXT.format(identification=name, total=total)


def added_to(node: Hypervisor, part: str) -> int | None:
    """Return the inventory that the file adds to a part; ``None`` if it adds none."""
    if node.filed is None or node.filed[0] != part or (node.attached and not part):
        return None
    return node.filed[1]
