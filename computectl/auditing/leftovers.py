"""Find traits, resource classes and inventory without an owner, without any host's ledger.

Traits take 2 GETs; classes 1, and 1 for each custom class that no provider with allocations has;
inventory 1 for each root that no host reports, and 1 for each provider of its tree.
"""

from collections.abc import Collection, Iterator

from agent.reporting.reports import Condition, Severity
from computectl.reading.trees import inventory_of
from reportclient.http import API
from reportclient.reader import Listed, members_of, part_of

CUSTOM = "CUSTOM_"


def unused_traits(api: API) -> Iterator[Condition]:
    """Yield a finding for each custom trait that no provider has."""
    path = f"/traits?name=startswith:{CUSTOM}"
    custom = frozenset(part_of(path, "traits", api))
    used = frozenset(part_of(f"{path}&associated=true", "traits", api))
    for trait in sorted(custom - used):
        step = f"harmless; to delete it: openstack trait delete {trait}"
        yield Condition("no provider has it", trait, Severity.INFO, step)


def unused_classes(used: Collection[str], api: API) -> Iterator[Condition]:
    """Yield a finding for each custom class without free inventory; ``used``: classes to skip."""
    listed = part_of("/resource_classes", "resource_classes", api)
    custom = {item["name"] for item in listed if item["name"].startswith(CUSTOM)}
    for name in sorted(custom.difference(used)):
        if not part_of(f"/resource_providers?resources={name}:1", "resource_providers", api):
            # A fully reserved inventory is not found either.
            step = f"harmless; openstack resource class delete {name}, refused if a provider has it"
            yield Condition("no provider has free inventory of it", name, Severity.INFO, step)


def left_inventory(root: Listed, api: API) -> Iterator[tuple[str, Condition]]:
    """Yield findings on inventory of a tree that no host reports, with the provider's UUID."""
    for item in members_of(root["uuid"], api):
        if classes := sorted(inventory_of(item["uuid"], api)):
            text = f"offers {', '.join(classes)} to the scheduler, but no host reports it"
            step = f"remove it with its root {root['uuid']}: see providers without a host"
            yield item["uuid"], Condition(text, item["name"], Severity.WARNING, step)
