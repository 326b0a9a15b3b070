"""Judges: data of other services stays in the tree; data of the driver is restored."""

from collections.abc import Callable, Iterable, Iterator

from driverkit.broken import Broken, broken_by_errors
from driverkit.differences import first_lines
from driverkit.judges.periods import again, expect_same
from driverkit.stage import Root, Stage
from reportclient.model import SHARES_VIA_AGGREGATE
from reportclient.provider_tree import ProviderTree, own_uuid
from reportclient.snapshot import Snapshot

TRAITS = ("CUSTOM_DRIVER_KIT_FOREIGN", "COMPUTE_NODE", "COMPUTE_STATUS_DISABLED")
"""A trait of an operator, and two that the agent sets itself."""
CLASS = "CUSTOM_DRIVER_KIT_FOREIGN"
AGGREGATE = "7d0f5f52-3f0e-4d5b-8a38-1f6d4c1e9a01"
NODES = 3
"""The most nodes that are judged: the driver's code is the same for all."""

Edit = Callable[[ProviderTree], object]


def providers(stage: Stage) -> None:
    """Judge whether foreign children of the root and of each device stay, and a sharing one."""

    def edit(root: Root, tree: ProviderTree) -> None:
        add_foreign(root.uuid, tree)
        tree.add_aggregates(root.uuid, AGGREGATE)
        name = f"{root.node}_driver_kit_shared"
        shared = tree.new_root(name, own_uuid(AGGREGATE, name))
        tree.update_inventory(shared, {CLASS: {"total": 100}})
        tree.update_traits(shared, [SHARES_VIA_AGGREGATE])
        tree.update_aggregates(shared, [AGGREGATE])

    _expect_kept(stage, edit, _foreign_providers)


def traits(stage: Stage) -> None:
    """Judge whether traits stay that another service adds to each provider."""

    def edit(root: Root, tree: ProviderTree) -> None:
        for uuid in tree.get_provider_uuids(root.uuid):
            tree.add_traits(uuid, *TRAITS)

    _expect_kept(stage, edit, lambda desired: _with(desired, "trait", TRAITS))


def aggregates(stage: Stage) -> None:
    """Judge whether an aggregate stays that another service adds to each provider."""

    def edit(root: Root, tree: ProviderTree) -> None:
        for uuid in tree.get_provider_uuids(root.uuid):
            tree.add_aggregates(uuid, AGGREGATE)

    _expect_kept(stage, edit, lambda desired: _with(desired, "aggregate", (AGGREGATE,)))


def drift(stage: Stage) -> None:
    """Judge whether the driver's data comes back after another service changes each kind of it."""
    loaded, roots = stage.reported()
    for root in roots[:NODES]:
        settled = root.view.snapshot
        for what, edit in _damages(root, settled):
            root.edited_by_another(edit)
            with broken_by_errors(f"node {root.node}: after {what}, "):
                root.report(loaded)
            now = root.read().view.snapshot
            expect_same(root, settled, now, f"after {what}, and a period more")


def _damages(root: Root, settled: Snapshot) -> Iterator[tuple[str, Edit]]:
    members = list(settled.walk(root.uuid))
    leaves = [it for it in members if it.parent_uuid and not list(settled.children(it.uuid))]
    if any(provider.inventory for provider in members):
        yield (
            "all inventory was removed",
            lambda tree: [tree.update_inventory(it.uuid, {}) for it in members],
        )
    if any(provider.traits for provider in members):
        yield (
            "all traits were removed",
            lambda tree: [tree.update_traits(it.uuid, []) for it in members],
        )
    if leaves:
        yield f"{leaves[0].name} was deleted", lambda tree: tree.remove(leaves[0].uuid)
        yield (
            f"{leaves[-1].name} was renamed",
            lambda tree: tree.rename(leaves[-1].uuid, f"{leaves[-1].name[:190]}_renamed"),
        )


def _expect_kept(
    stage: Stage,
    edit: Callable[[Root, ProviderTree], None],
    theirs: Callable[[Snapshot], dict[str, object]],
) -> None:
    """Expect that ``theirs`` of the tree is the same after a period, also of a new driver."""
    loaded, reported = stage.reported()
    roots = reported[:NODES]
    for root in roots:
        root.edited_by_another(lambda tree, root=root: edit(root, tree))  # type: ignore[misc]
    for asked, driver_text in ((loaded, "the driver"), (stage.open(), "a fresh driver")):
        for root in roots:
            before = root.read().view.snapshot
            after = theirs(again(root, asked, "with data of other services in the tree"))
            lost = [text for text, value in theirs(before).items() if after.get(text) != value]
            if lost:
                raise Broken(
                    f"node {root.node}: {driver_text} has removed or changed\n{first_lines(lost)}"
                )


def _foreign_providers(desired: Snapshot) -> dict[str, object]:
    return {
        f"a foreign provider {provider.name} ({provider.uuid})": provider
        for provider in desired.walk()
        if CLASS in provider.inventory
    }


def _with(desired: Snapshot, what: str, names: Iterable[str]) -> dict[str, object]:
    return {
        f"{what} {name} of provider {provider.name} ({provider.uuid})": True
        for provider in desired.walk()
        for name in names
        if name in provider.traits | provider.aggregates
    }


def add_foreign(root: str, tree: ProviderTree) -> None:
    """Add a foreign child to the root, and to each provider below it."""
    for uuid in tree.get_provider_uuids(root):
        add_foreign_child(tree, uuid)


def add_foreign_child(tree: ProviderTree, uuid: str) -> str:
    """Add a foreign child to the provider ``uuid``; return the UUID of the child."""
    child = tree.new_child(f"{tree.data(uuid).name[:170]}_driver_kit_foreign", uuid)
    tree.update_inventory(child, {CLASS: {"total": 2}})
    tree.update_traits(child, [TRAITS[0]])
    return child
