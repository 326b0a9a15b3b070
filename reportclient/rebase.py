"""Apply the changes between two snapshots to a newer snapshot.  Pure.

What did not change is taken from the newer snapshot: traits and aggregates are added and
removed one by one, inventory class by class.
"""

from collections.abc import Iterator, Mapping

from reportclient.diff import parents_first
from reportclient.model import Inventory, Provider
from reportclient.plan import Problem, create
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot


def rebased(base: Snapshot, desired: Snapshot, now: Snapshot) -> Snapshot:
    """Return ``now`` with the changes from ``base`` to ``desired``.

    A changed provider that is not in ``now`` any more is created again.  A provider that
    ``desired`` removed stays if ``now`` has another provider below it that was not removed.

    :raises ValueError: the changes conflict: two providers with one name, or moved below
        each other or below one that is not in ``now`` any more.
    """
    if now == base:
        return desired
    changed = list(desired.changed_since(base))
    tree = ProviderTree(now)
    gone = {uuid for uuid in changed if uuid not in desired}
    _remove(gone, tree)  # their names can be used
    for provider in parents_first(desired, (uuid for uuid in changed if uuid in desired)):
        _apply_changes(provider, base.get(provider.uuid), tree)
    _remove(gone, tree)  # those below which a provider was that is elsewhere now
    return tree.freeze()


def _remove(gone: set[str], tree: ProviderTree) -> None:
    for uuid in gone:
        if tree.exists(uuid) and gone.issuperset(tree.get_provider_uuids(uuid)):
            tree.remove(uuid)


def _apply_changes(provider: Provider, before: Provider | None, tree: ProviderTree) -> None:
    uuid, now = provider.uuid, tree.provider(provider.uuid)
    if now is None:
        create(tree, uuid, provider.name, provider.parent_uuid)
    old = (now and before) or Provider(uuid, "")
    if provider.name != old.name:
        tree.rename(uuid, provider.name)
    if before is None or provider.parent_uuid != old.parent_uuid:
        tree.move(uuid, provider.parent_uuid)
    tree.remove_traits(uuid, *old.traits - provider.traits)
    tree.add_traits(uuid, *provider.traits - old.traits)
    tree.remove_aggregates(uuid, *old.aggregates - provider.aggregates)
    tree.add_aggregates(uuid, *provider.aggregates - old.aggregates)
    tree.update_inventory(uuid, _records(provider.inventory, old.inventory, tree.records(uuid)))


def _records(
    desired: Mapping[str, Inventory], old: Mapping[str, Inventory], now: Mapping[str, Inventory]
) -> dict[str, Inventory]:
    left = {name: record for name, record in now.items() if name in desired or name not in old}
    return {**left, **{n: r for n, r in desired.items() if r != old.get(n) or n not in left}}


def not_removed(base: Snapshot, desired: Snapshot, new: Snapshot) -> Iterator[Problem]:
    """Yield the removals of ``desired`` that ``new``, the result of :func:`rebased`, leaves out."""
    for uuid in desired.changed_since(base):
        if uuid in new and uuid not in desired:
            text = "not removed: another client has created or moved a provider below it"
            yield Problem(uuid, new.providers[uuid].name, text)
