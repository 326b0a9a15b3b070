"""Names of traits and resource classes: their syntax, and which of them Placement has.  Pure."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from reportclient.model import Provider

_NAME = re.compile(r"(?!CUSTOM_$)[A-Z0-9_]{1,255}")


def is_custom(name: str) -> bool:
    """Return whether this is a custom trait or class, which clients may create."""
    return name.startswith("CUSTOM_")


def name_problem(name: str, what: str) -> str | None:
    """Return why this is not a valid name of a ``what`` (trait or resource class), or ``None``."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return (
            f"{what} {name!r} is not a valid name: "
            "only A-Z, 0-9 and _, at most 255 characters, and at least one after CUSTOM_"
        )
    return None


@dataclass(frozen=True, slots=True)
class Names:
    """The traits and resource classes that Placement is known to have.

    The absent ones are standard names that this Placement refused; clients can't create them, so
    they are left out of requests until Placement may have been upgraded.
    """

    traits: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    absent_traits: frozenset[str] = frozenset()
    absent_classes: frozenset[str] = frozenset()

    def including(self, providers: Iterable[Provider]) -> "Names":
        """Return these names and those that the providers have in Placement."""
        listed = list(providers)
        traits = self.traits.union(*(provider.traits for provider in listed))
        classes = self.classes.union(*(provider.inventory for provider in listed))
        return replace(self, traits=traits, classes=classes)

    def refused(self, kind: str, names: frozenset[str]) -> "Names":
        """Return the names after Placement refused some ``kind``, traits or classes, as unknown."""
        known, absent = getattr(self, kind), getattr(self, f"absent_{kind}")
        absent |= {name for name in names if not is_custom(name)}
        return replace(self, **{kind: known - names, f"absent_{kind}": absent})

    def without_absent(self) -> "Names":
        """Return the names that Placement has: an upgraded Placement may know the others."""
        return Names(self.traits, self.classes)
