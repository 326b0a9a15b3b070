"""The differences between two states of a tree, worded as in ``computectl plan``.  Pure."""

from collections.abc import Iterable
from dataclasses import replace

from agent.reporting.changes import sentence
from reportclient.diff import diff
from reportclient.model import Provider
from reportclient.plan import EnsureClass, EnsureTrait, Plan
from reportclient.snapshot import Snapshot

MOST = 12
"""The most lines that are shown; the others are counted."""


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """Return the differences from ``before`` to ``after``, a line each.

    An inventory field that is missing counts as Placement's default.
    """
    complete = []
    for provider in before.walk():
        records = provider.inventory.items()
        inventory = {name: record.with_defaults(None) for name, record in records}
        complete.append(replace(provider, inventory=inventory))
    plan = diff(Snapshot.build(complete), after)
    # diff() plans to write invalid data again even if it did not change.
    differ = {uuid for uuid in plan.names if before.get(uuid) != after.get(uuid)}
    wrong = [str(problem) for problem in plan.problems if problem.uuid in differ]
    operations = [each for each in plan.operations if getattr(each, "uuid", None) in differ]
    return [*sentences(replace(plan, operations=tuple(operations)), before), *wrong]


def sentences(plan: Plan, before: Snapshot) -> list[str]:
    """Return a sentence for each operation on a provider."""
    names = EnsureTrait | EnsureClass
    operations = [each for each in plan.operations if not isinstance(each, names)]
    return [sentence(each, before, plan.names) for each in operations]


def first_lines(lines: Iterable[str]) -> str:
    """Return the first lines as text, and the number of the others."""
    listed = list(lines)
    more = [f"and {len(listed) - MOST} more"] if len(listed) > MOST else []
    return "\n".join([*listed[:MOST], *more])


def name_and_uuid(provider: Provider) -> str:
    """Return the provider's name and UUID as text."""
    return f"provider {provider.name} ({provider.uuid})"
