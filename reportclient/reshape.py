"""Reshape: which allocations move, checks of them, and the request body.  Pure.

A reshape moves inventory and the allocations on it in one transaction.  Placement checks
capacity, but not whether the caller lost a consumer's allocations.  This module does.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

from reportclient import forms
from reportclient.model import Allocations, canonical_uuid, total_by_class, used_by
from reportclient.plan import Reshape, SetInventories, as_dicts
from reportclient.snapshot import Snapshot


class AllocationsBroken(Exception):
    """Allocations were lost, invented or misplaced; the text names the consumer."""


class Affected(NamedTuple):
    """Where a reshape changes inventories.

    ``providers``: UUIDs of those from which allocations may be moved; others may only get more.
    ``appeared``: new classes, which allocations of other classes may become.  ``vanished``: classes
    that disappear: their allocations have to become other classes'.
    """

    providers: set[str]
    appeared: set[str]
    vanished: set[str]

    @classmethod
    def between(cls, old: Snapshot, new: Snapshot) -> "Affected":
        """Return what differs between the inventories of two snapshots."""
        changed = {uuid for uuid in new.changed_since(old) if _has(old, uuid) != _has(new, uuid)}
        before = {name for uuid in changed for name in _has(old, uuid)}
        after = {name for uuid in changed for name in _has(new, uuid)}
        return cls(changed, after - before, before - after)


def _has(snapshot: Snapshot, uuid: str) -> Mapping[str, Any]:
    provider = snapshot.get(uuid)
    return {} if provider is None else provider.inventory


def moved_allocations(
    before: Allocations,
    after: Allocations,
    affected: Affected,
    foreign: Mapping[str, str] = {},
) -> Allocations:
    """Check the allocations and return those of ``after`` that differ from ``before``.

    :param foreign: the names, by UUID, of providers whose allocations must not be moved.
    :raises AllocationsBroken: consumers differ, a consumer's amounts do not add up to
        what they were, or another provider's allocations were touched.
    """
    refuse_malformed(after)
    for consumer in before.keys() ^ after.keys():
        what = "lost" if consumer in before else "invented"
        raise AllocationsBroken(f"the allocations of consumer {consumer} were {what}")
    moved = {}
    for consumer, held in after.items():
        if _amounts(held) != _amounts(before[consumer]):
            _check(consumer, before[consumer], held, affected, foreign)
            moved[consumer] = {**before[consumer], "allocations": held["allocations"]}
    return moved


def refuse_malformed(allocations: Allocations) -> None:
    """Check that allocations have the format of ``GET /allocations/{consumer_uuid}``.

    :raises AllocationsBroken: they do not; the text says which format is needed.
    """
    for consumer, held in allocations.items():
        try:
            parts = forms.field(held, "allocations", forms.PARTS["allocations"])
            wrong = [uuid for uuid in parts if canonical_uuid(uuid, "provider") != uuid]
        except ValueError:
            wrong = [consumer]
        if wrong:
            raise AllocationsBroken(
                f"consumer {consumer}: {{'allocations': {{provider UUID: {{'resources': "
                f"{{class: amount}}}}}}, …}} is needed, not {held!r}"
            )


def _check(
    consumer: str,
    before: Mapping[str, Any],
    after: Mapping[str, Any],
    affected: Affected,
    foreign: Mapping[str, str],
) -> None:
    was, now = _amounts(before), _amounts(after)
    touched = sorted({uuid for (uuid, _), _ in was.items() ^ now.items()})
    less = {key[0] for key, amount in was.items() if now.get(key, 0) < amount}
    for provider in touched:
        if provider in foreign:
            raise AllocationsBroken(
                f"consumer {consumer}: its allocations on provider {foreign[provider]} were "
                "changed, and another service owns that provider"
            )
        # More is allowed without a change of inventory: Placement checks the free capacity.
        if provider not in affected.providers and provider in less:
            raise AllocationsBroken(
                f"consumer {consumer}: its allocations on provider {provider} were changed, "
                "but the inventory of that provider was not"
            )
    old, new = (
        total_by_class({name: amount} for (_, name), amount in amounts.items())
        for amounts in (was, now)
    )
    lost, more = old - new, new - old
    renamed = more.keys() <= affected.appeared or lost.keys() <= affected.vanished
    if lost.total() != more.total() or not renamed:
        raise AllocationsBroken(
            f"consumer {consumer}: its amounts do not add up: {_listed(lost)} taken away, "
            f"{_listed(more)} added (on {', '.join(touched)})"
        )


def _listed(amounts: Counter[str]) -> str:
    return ", ".join(f"{name} {amount}" for name, amount in sorted(amounts.items())) or "nothing"


def _amounts(consumer: Mapping[str, Any]) -> dict[tuple[str, str], int]:
    """Return a consumer's amounts by provider UUID and resource class."""
    return {
        (uuid, name): amount
        for uuid, held in consumer["allocations"].items()
        for name, amount in held["resources"].items()
    }


def reshape_payload(
    reshape: Reshape | SetInventories, generations: Mapping[str, int]
) -> dict[str, Any]:
    """Return the body of ``POST /reshaper``; ``generations`` by provider UUID go into it."""
    inventories = {
        uuid: {
            "resource_provider_generation": generations.get(uuid),
            "inventories": as_dicts(inventory),
        }
        for uuid, inventory in reshape.inventories.items()
    }
    moved = reshape.allocations if isinstance(reshape, Reshape) else {}
    allocations = dict[str, dict[str, Any]]()
    for consumer, held in moved.items():  # without provider generations and empty parts
        parts = {uuid: held["allocations"][uuid]["resources"] for uuid in used_by(held)}
        used = {uuid: {"resources": dict(amounts)} for uuid, amounts in parts.items()}
        allocations[consumer] = {**held, "allocations": used}
    return {"inventories": inventories, "allocations": allocations}


def generations_after(
    reshape: Reshape | SetInventories, generations: Mapping[str, int]
) -> dict[str, int]:
    """Return the generations of all providers concerned after the reshape.

    Placement increases a generation twice to replace an inventory (first by the union of old
    and new, then by the new one), once to empty it, and once more to write allocations on it.
    """
    steps = Counter({uuid: 2 if records else 1 for uuid, records in reshape.inventories.items()})
    if isinstance(reshape, Reshape):
        steps.update({uuid for held in reshape.allocations.values() for uuid in used_by(held)})
    return {uuid: generations[uuid] + n for uuid, n in steps.items() if uuid in generations}
