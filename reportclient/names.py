"""Names of traits and resource classes: which are well-formed, which Placement has."""

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

from reportclient.model import Provider

_NAME = re.compile(r"(?!CUSTOM_$)[A-Z0-9_]{1,255}")


def is_custom(name: str) -> bool:
    """Whether we may create this name in Placement."""
    return name.startswith("CUSTOM_")


def name_problem(name: str, what: str) -> str | None:
    """Why Placement would refuse this name of a ``what``, or ``None``."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        return (
            f"{what} {name!r} is no name that Placement takes: "
            "only A-Z, 0-9 and _, at most 255 characters, and some after CUSTOM_"
        )
    return None


@dataclass(frozen=True, slots=True)
class Names:
    """Names that Placement was seen to have.

    ``absent`` are standard names that it does not have; they can't be created, so
    they are left out of what we send.
    """

    traits: frozenset[str] = frozenset()
    classes: frozenset[str] = frozenset()
    absent: frozenset[str] = frozenset()

    def including(self, providers: Iterable[Provider]) -> "Names":
        """With the names that these providers carry in Placement."""
        seen = list(providers)
        traits = self.traits.union(*(provider.traits for provider in seen))
        classes = self.classes.union(*(provider.inventory for provider in seen))
        return replace(self, traits=traits, classes=classes)

    def refused(self, names: frozenset[str]) -> "Names":
        """After Placement said that it does not know ``names``."""
        return Names(
            self.traits - names,
            self.classes - names,
            self.absent.union(name for name in names if not is_custom(name)),
        )
