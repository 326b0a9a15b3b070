"""How two states of a tree differ, provider by provider, as lines for an author.  Pure."""

from collections.abc import Iterable, Iterator, Mapping

from reportclient.model import Inventory, Provider
from reportclient.snapshot import Snapshot

MOST = 12
"""So many lines are shown; the rest is counted."""


def differences(before: Snapshot, after: Snapshot) -> list[str]:
    """One line for each difference; empty if the two say the same.

    A field of an inventory that one of them leaves unsaid differs from Placement's default
    only if the other one says something else.
    """
    return [
        line
        for uuid in {**before.providers, **after.providers}
        for line in _provider(uuid, before, after)
    ]


def first_lines(lines: Iterable[str]) -> str:
    """The first of them, and how many more there are."""
    listed = list(lines)
    more = [f"and {len(listed) - MOST} more"] if len(listed) > MOST else []
    return "\n".join([*listed[:MOST], *more])


def _provider(uuid: str, before: Snapshot, after: Snapshot) -> Iterator[str]:
    old, new = before.get(uuid), after.get(uuid)
    if old is None or new is None:
        there = new or old
        assert there is not None
        yield f"{called(there)}: {'was removed' if new is None else 'was added'}"
        return
    yield from (f"{called(old)}: {text}" for text in _changes(old, new, before, after))


def _changes(old: Provider, new: Provider, before: Snapshot, after: Snapshot) -> Iterator[str]:
    if old.name != new.name:
        yield f"was renamed to {new.name}"
    if old.parent_uuid != new.parent_uuid:
        yield f"was below {_above(old, before)}, is below {_above(new, after)}"
    yield from _inventory(old.inventory, new.inventory)
    yield from _sets("trait", old.traits, new.traits)
    yield from _sets("aggregate", old.aggregates, new.aggregates)


def _inventory(old: Mapping[str, Inventory], new: Mapping[str, Inventory]) -> Iterator[str]:
    for name in sorted(old.keys() | new.keys()):
        if name not in new:
            yield f"inventory of {name} ({old[name].total}) was removed"
        elif name not in old:
            yield f"inventory of {name} ({new[name].total}) was added"
        else:
            yield from _record(name, old[name].over(None), new[name].over(old[name]))


def _record(name: str, old: Inventory, new: Inventory) -> Iterator[str]:
    was, now = old.as_dict(), new.as_dict()
    for field in was:
        if was[field] != now[field]:
            yield f"inventory of {name}: {field} was {was[field]}, is {now[field]}"


def _sets(what: str, old: frozenset[str], new: frozenset[str]) -> Iterator[str]:
    yield from (f"{what} {name} was removed" for name in sorted(old - new))
    yield from (f"{what} {name} was added" for name in sorted(new - old))


def _above(provider: Provider, snapshot: Snapshot) -> str:
    if provider.parent_uuid is None:
        return "nothing"
    return called(snapshot.providers[provider.parent_uuid])


def called(provider: Provider) -> str:
    """A provider by its name and UUID."""
    return f"provider {provider.name} ({provider.uuid})"
