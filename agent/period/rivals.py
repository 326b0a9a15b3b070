"""Whether another service takes our root for its own: by its mark, or by its name.  Pure."""

from __future__ import annotations

from dataclasses import dataclass

from agent.period.mark import marks_of_others, service_of
from reportclient.model import Provider


@dataclass(slots=True)
class Rivals:
    """What the last look at a root found; ``mark`` is that of our own service, or empty."""

    other_mark: str | None = None
    """The mark that was put in place of ours."""
    other_name: str | None = None
    """The name that somebody else gave the root, until it is seen with its own again."""

    def look(self, before: Provider | None, root: Provider | None, node: str, mark: str) -> None:
        """Compare a root that we knew as ``before`` with what it is now."""
        marked = bool(mark) and before is not None and mark in before.traits
        others = marks_of_others(root.traits, mark) if root and marked else ()
        self.other_mark = next(iter(sorted(others)), None)
        if root is None or root.name == node:
            self.other_name = None
        elif before is not None and before.name == node:
            self.other_name = root.name

    def told(self, uuid: str, node: str) -> dict[str, str]:
        """What an operator has to know, by part."""
        found = {}
        if self.other_mark is not None:
            service = service_of(self.other_mark)
            found["node"] = f"is reported by the service with compute_id {service} as well"
        if self.other_name is not None:
            found["name"] = (
                f"somebody else named the provider {uuid} of {node} {self.other_name}; it gets "
                "its name back. If that is a host with the same compute_id, from a copied disk, "
                "each takes the provider from the other: stop one, empty its state_path, start it"
            )
        return found
