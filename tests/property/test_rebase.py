"""rebased: changes laid on top of what another client wrote meanwhile."""

import re
from dataclasses import replace

from hypothesis import given, reject

from reportclient.client import rebased
from reportclient.model import Inventory, Provider
from reportclient.snapshot import Snapshot
from tests.property import strategies as ours

THEIRS, POOL = frozenset({"CUSTOM_THEIRS"}), frozenset({"aaaaaaaa-0000-4000-8000-000000000001"})
RECORDS = {"CUSTOM_THEIRS": Inventory(1).with_defaults(None)}


def written(provider: Provider) -> Provider:
    """As another client has changed it: a class, a trait and an aggregate more."""
    return replace(
        provider,
        inventory={**provider.inventory, **RECORDS},
        traits=provider.traits | THEIRS,
        aggregates=provider.aggregates | POOL,
    )


@given(ours.edited_snapshots())
def test_what_another_client_wrote_stays_and_all_else_is_as_desired(
    pair: tuple[Snapshot, Snapshot],
) -> None:
    base, desired = pair
    now = Snapshot.build(map(written, base.walk()))
    try:
        result = rebased(base, desired, now)
    except ValueError as err:
        assert re.search("already|taken|below|ancestor", str(err)), "names or parents are exchanged"
        reject()
    kept = (written(each) if each.uuid in base else each for each in desired.walk())
    assert result == Snapshot.build(kept)


def test_a_removed_provider_goes_though_its_child_moved_and_another_wrote() -> None:
    root, above, child = (Provider(uuid, uuid, None) for uuid in ours.UUIDS[:3])
    above, below = replace(above, parent_uuid=root.uuid), replace(child, parent_uuid=above.uuid)
    moved = replace(child, parent_uuid=root.uuid)
    now = Snapshot.build(map(written, (root, above, below)))
    result = rebased(Snapshot.build([root, above, below]), Snapshot.build([root, moved]), now)
    assert result == Snapshot.build(map(written, (root, moved)))


@given(ours.edited_snapshots())
def test_without_another_writer_it_is_the_desired_snapshot(pair: tuple[Snapshot, Snapshot]) -> None:
    base, desired = pair
    assert rebased(base, desired, ours.rebuilt(base)) is desired


@given(ours.edited_snapshots())
def test_what_another_client_removed_is_created_again_where_it_was_changed(
    pair: tuple[Snapshot, Snapshot],
) -> None:
    base, desired = pair
    try:
        result = rebased(base, desired, Snapshot.build([]))
    except ValueError as err:
        assert "missing parent" in str(err), "it was removed, too"
        reject()
    changed = {uuid for uuid in desired.changed_since(base) if uuid in desired}
    assert result.providers == {uuid: desired.providers[uuid] for uuid in changed}
