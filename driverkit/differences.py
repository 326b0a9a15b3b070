"""How two states of a tree differ, in the words of ``computectl plan``.  Pure."""

from collections.abc import Iterable
from dataclasses import replace

from computectl.forecast.wording import Wording
from reportclient.diff import diff
from reportclient.model import Provider
from reportclient.plan import EnsureClass, EnsureTrait, Plan
from reportclient.snapshot import Snapshot

MOST = 12
"""So many lines are shown; the rest is counted."""


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """Return the differences from ``before`` to ``after``, a line each.

    A field of an inventory that one of them leaves unsaid differs from Placement's default
    only if the other one says something else.
    """
    plan = diff(Snapshot.build(map(_complete, before.walk())), after)
    # Of what Placement would not take all is changed, also what was so before.
    differ = {uuid for uuid in plan.names if before.get(uuid) != after.get(uuid)}
    wrong = [str(one) for one in plan.problems if one.uuid in differ]
    operations = [one for one in plan.operations if getattr(one, "uuid", None) in differ]
    return [*sentences(replace(plan, operations=tuple(operations)), before), *wrong]


def sentences(plan: Plan, before: Snapshot) -> list[str]:
    """Return a sentence for each operation on a provider."""
    words = Wording(plan, before)
    names = EnsureTrait | EnsureClass
    return [words.sentence(one) for one in plan.operations if not isinstance(one, names)]


def _complete(provider: Provider) -> Provider:
    inventory = {name: record.with_defaults(None) for name, record in provider.inventory.items()}
    return replace(provider, inventory=inventory)


def first_lines(lines: Iterable[str]) -> str:
    """The first of them, and how many more there are."""
    listed = list(lines)
    more = [f"and {len(listed) - MOST} more"] if len(listed) > MOST else []
    return "\n".join([*listed[:MOST], *more])


def called(provider: Provider) -> str:
    """A provider by its name and UUID."""
    return f"provider {provider.name} ({provider.uuid})"
