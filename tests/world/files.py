"""An operator's provider files: what they say, and what it adds to which provider."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.world.hypervisor import Hypervisor

CLASS, TRAIT = "CUSTOM_FILED", "CUSTOM_FILED_TRAIT"
NAME = "added.yaml"
BAD = "says what no agent understands"
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


def added_to(here: Hypervisor, part: str) -> int | None:
    """How much of its class is added to that part; ``None``: nothing is."""
    if here.filed is None or here.filed[0] != part or (here.attached and not part):
        return None
    return here.filed[1]
