"""Judges of reshapes: inventory that moves, and the allocations on it."""

import copy
import uuid as uuidlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from agent.ownership.ledger import DRIVER, everything_on
from agent.reporting.reports import Severity
from driverkit.broken import Broken, DriverRaised, NotJudged, broken_by_errors
from driverkit.differences import differences, first_lines
from driverkit.judges.foreign import CLASS, add_foreign_child
from driverkit.stage import Root, Stage
from drivers.api import Allocations, ProviderTree
from drivers.errors import ReshapeNeeded
from drivers.loaded import LoadedDriver
from reportclient.allocations import LazyAllocations
from reportclient.errors import PlacementError
from reportclient.plan import create
from reportclient.reshape import AllocationsBroken, refuse_malformed
from reportclient.snapshot import Snapshot

OWNER = {"project_id": "driver-kit", "user_id": "driver-kit", "consumer_generation": None}
ReshapeCase = tuple[ProviderTree, Mapping[str, Any]]
"""A tree in the old shape, and allocations on it: ``{consumer: {"allocations": {provider:
{"resources": {class: amount}}}}}``, a provider by its UUID or its name."""


@dataclass(slots=True)
class OldShape:
    """A root in the old shape, with allocations of consumers; one of them is foreign."""

    root: Root
    loaded: LoadedDriver
    foreign: str
    """UUID of the consumer that has no allocation on the driver's providers."""


def needed(stage: Stage) -> None:
    """Judge that nothing raises ReshapeNeeded while nothing has to move."""
    loaded = stage.open()
    for root in stage.roots(loaded):
        _expect_none(root, loaded, "Placement has nothing of this node yet")
        root.report(loaded)
        root.read()
        for asked in (loaded, stage.open()):
            _expect_none(root, asked, "Placement has what the driver has reported")
            _expect_none(root, asked, "the allocations were given, and nothing has to move", {})


def needed_once(stage: Stage, case: ReshapeCase) -> None:
    """Judge whether ReshapeNeeded is raised again after the reshape."""
    old = old_shape(stage, case)
    try:
        root = after_reshape(old)
    except Broken as err:
        raise NotJudged(f"{err} (see reshape-totals)") from None
    _expect_none(root, old.loaded, "the reshape was done")


def _expect_none(
    root: Root, loaded: LoadedDriver, when: str, allocations: Allocations | None = None
) -> None:
    try:
        root.update_provider_tree(loaded, root.fresh(), allocations)
    except DriverRaised as raised:
        if isinstance(raised.err, ReshapeNeeded):
            raise Broken(f"node {root.node}: {when}, and {raised.at_length()}") from None
        raise


def asked(stage: Stage, case: ReshapeCase) -> None:
    """Judge whether the old shape without allocations raises ReshapeNeeded."""
    old = old_shape(stage, case)
    tree = old.root.fresh()
    try:
        old.root.update_provider_tree(old.loaded, tree)
    except DriverRaised as raised:
        if isinstance(raised.err, ReshapeNeeded):
            return
        raise
    changes = first_lines(differences(old.root.view.snapshot, tree.freeze()))
    raise Broken(
        f"node {old.root.node}: reshape_case was shown without allocations, and ReshapeNeeded "
        f"was not raised; instead:\n{changes or 'nothing was changed'}"
    )


def totals(stage: Stage, case: ReshapeCase) -> None:
    """Judge whether the agent and Placement accept the reshape."""
    after_reshape(old_shape(stage, case))


def after_reshape(old: OldShape) -> Root:
    """Return the root after a period with the reshape.  :raises Broken: it is refused."""
    root, before = old.root, old.root.view.snapshot
    with broken_by_errors(""):
        report = root.report(old.loaded)
    errors = "\n".join(report.texts(Severity.ERROR))
    if errors:
        names = {uuid: provider.name for uuid, provider in before.providers.items()}
        for uuid, name in {**names, **report.plan.names}.items():
            text = f"{name} ({uuid})"
            if text not in errors:
                errors = errors.replace(uuid, text)
        raise Broken(f"node {root.node}: the reshape is refused:\n{errors}")
    return root.read()


def foreign(stage: Stage) -> None:
    """Judge whether allocations stay while nothing has to move."""
    loaded, roots = stage.reported()
    for root in roots:
        before = _one_each(root.view.snapshot)
        after = copy.deepcopy(before)
        root.update_provider_tree(loaded, root.fresh(), after)
        _expect_untouched(root, before, after, "although nothing has to move")


def foreign_in_a_reshape(stage: Stage, case: ReshapeCase) -> None:
    """Judge whether foreign allocations stay in a reshape of the driver."""
    old = old_shape(stage, case)
    before = dict(LazyAllocations(old.root.view, stage.api))
    after = copy.deepcopy(before)
    old.root.update_provider_tree(old.loaded, old.root.fresh(), after)
    try:
        refuse_malformed(after)
    except AllocationsBroken as err:
        raise Broken(str(err)) from None
    theirs, now = (
        {old.foreign: each[old.foreign]} if old.foreign in each else {} for each in (before, after)
    )
    _expect_untouched(old.root, theirs, now, "which is foreign")


def _expect_untouched(root: Root, before: Allocations, after: Allocations, why: str) -> None:
    for consumer in dict.fromkeys([*before, *after]):
        if before.get(consumer) != after.get(consumer):
            raise Broken(
                f"node {root.node}: the allocations of consumer {consumer} were changed, {why}:\n"
                f"before: {_held(root, before, consumer)}\nafter:  {_held(root, after, consumer)}"
            )


def _held(root: Root, allocations: Allocations, consumer: str) -> str:
    parts = allocations.get(consumer, {}).get("allocations", {})
    names = {uuid: provider.name for uuid, provider in root.view.snapshot.providers.items()}
    parts_held = [f"{part['resources']} of {names.get(uuid, uuid)}" for uuid, part in parts.items()]
    return ", ".join(parts_held) or "nothing"


def _one_each(snapshot: Snapshot) -> Allocations:
    """Return a consumer for each provider, with one unit of each class allocated."""
    return {
        _consumer(uuid): {
            **OWNER,
            "consumer_generation": 1,
            "allocations": {
                uuid: {"generation": 1, "resources": dict.fromkeys(provider.inventory, 1)}
            },
        }
        for uuid, provider in snapshot.providers.items()
        if provider.inventory
    }


def _consumer(seed: str) -> str:
    return str(uuidlib.uuid5(uuidlib.NAMESPACE_OID, f"driver-kit {seed}"))


def old_shape(stage: Stage, case: ReshapeCase) -> OldShape:
    """Write the case to Placement; return its root and a new driver.

    :raises NotJudged: the case can't be used.
    """
    tree, guests = case
    loaded = stage.open()
    node = next(filter(tree.exists, stage.nodes(loaded)), None)
    if node is None:
        raise NotJudged(
            f"reshape_case: its tree has none of the driver's nodes: {stage.nodes(loaded)}"
        )
    root = stage.root(node, tree.data(node).uuid)
    shape = tree.freeze()
    root.edited_by_another(partial(_make, shape), "the tree of reshape_case")
    ledger = replace(root.ledger, begun=True)
    for provider in shape.walk():
        claims = everything_on(provider)._replace(aggregates=provider.aggregates)
        ledger = ledger.adding(DRIVER + loaded.name, provider.uuid, claims)
    root.ledger = ledger
    root.edited_by_another(lambda edit: add_foreign_child(edit, root.uuid))
    old = OldShape(root, loaded, _consumer(f"foreign {root.uuid}"))
    theirs = (item for item in root.view.snapshot.walk() if CLASS in item.inventory)
    _allocate(old, {next(theirs).uuid: {"resources": {CLASS: 1}}}, old.foreign)
    for consumer, held in guests.items():
        _allocate(old, held["allocations"], consumer)
    root.read()
    return old


def _make(shape: Snapshot, tree: ProviderTree) -> None:
    """Make ``tree`` equal to the tree of the fixture."""
    for provider in shape.walk():
        uuid = provider.uuid
        if not tree.exists(uuid):
            create(tree, uuid, provider.name, provider.parent_uuid)
        tree.update_inventory(uuid, provider.inventory)
        tree.add_traits(uuid, *provider.traits)
        tree.add_aggregates(uuid, *provider.aggregates)


def _allocate(old: OldShape, held: Mapping[str, Any], consumer: str) -> None:
    tree = old.root.fresh()
    for provider in held:
        if not tree.exists(provider):
            raise NotJudged(f"reshape_case: consumer {consumer}: no provider {provider}")
    uses = {tree.data(it).uuid: {"resources": dict(held[it]["resources"])} for it in held}
    body = {**OWNER, "allocations": uses}
    try:
        old.root.stage.api.request("PUT", f"/allocations/{consumer}", json=body)
    except PlacementError as err:
        raise NotJudged(f"reshape_case: consumer {consumer}: {err}") from None
