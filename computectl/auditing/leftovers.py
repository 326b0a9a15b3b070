"""Leftovers without an owner, as the whole cloud shows them; each host's ledger knows more.

Traits: 2 GETs.  Classes: 1, and 1 for each custom one that nothing used has.  Inventory: for each
root that no host reports 1, and 1 for each provider of its tree.
"""

from collections.abc import Collection, Iterator

from agent.reporting.conditions import Condition, Severity
from computectl.reading.trees import inventory_of
from reportclient.http import API
from reportclient.reader import Listed, members_of, part_of

CUSTOM = "CUSTOM_"


def unused_traits(api: API) -> Iterator[Condition]:
    """Names that somebody made, and that no provider has."""
    path = f"/traits?name=startswith:{CUSTOM}"
    made = frozenset(part_of(path, "traits", api))
    used = frozenset(part_of(f"{path}&associated=true", "traits", api))
    for trait in sorted(made - used):
        step = f"harmless; openstack trait delete {trait}"
        yield Condition("no provider has it", trait, Severity.INFO, step)


def unused_classes(used: Collection[str], api: API) -> Iterator[Condition]:
    """Names that somebody made and no provider offers; ``used`` are those of used providers."""
    listed = part_of("/resource_classes", "resource_classes", api)
    made = {one["name"] for one in listed if one["name"].startswith(CUSTOM)}
    for name in sorted(made.difference(used)):
        if not part_of(f"/resource_providers?resources={name}:1", "resource_providers", api):
            # What is reserved as a whole is not found either.
            step = f"harmless; openstack resource class delete {name}, refused where one has it"
            yield Condition("no provider offers it", name, Severity.INFO, step)


def left_inventory(root: Listed, api: API) -> Iterator[tuple[str, Condition]]:
    """Return, by provider, the inventory in trees that no host reports."""
    for one in members_of(root["uuid"], api):
        if classes := sorted(inventory_of(one["uuid"], api)):
            text = f"offers {', '.join(classes)} to the scheduler, and no host keeps it"
            step = f"it goes with its root {root['uuid']}: see providers without a host"
            yield one["uuid"], Condition(text, one["name"], Severity.WARNING, step)
