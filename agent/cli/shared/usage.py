"""What is shown beside providers: use, consumers, generations, what they can give.  Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from reportclient.model import Inventory

DISABLED = "COMPUTE_STATUS_DISABLED"
Usages = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Usage:
    """What a snapshot does not say of its providers; all by UUID.

    ``usages``: amounts by resource class, ``None`` if nobody asked; ``consumers``: how
    many there are; ``marked``: the one that was asked for.
    """

    usages: Usages | None = None
    consumers: Mapping[str, int] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)
    marked: str | None = None


def capacity(record: Inventory) -> int:
    """How much of it can be allocated in all."""
    full = record.over(None)
    assert full.reserved is not None and full.allocation_ratio is not None
    return int((full.total - full.reserved) * full.allocation_ratio)
