"""Forests of providers, and edits of them, over few names: what can collide, does."""

import uuid as uuidlib
from collections.abc import Iterable
from dataclasses import replace
from typing import Any
from xml.etree.ElementTree import Element

from hypothesis import strategies as st

from reportclient.model import Inventory, Provider
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot

UUIDS = [str(uuidlib.UUID(int=0x4000_8000 + number)) for number in range(7)]
NAMES = [f"name{number}" for number in range(7)]
TRAITS = ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_AVX", "COMPUTE_NODE"]
CLASSES = ["VCPU", "MEMORY_MB", "CUSTOM_GPU", "CUSTOM_NIC"]
AGGREGATES = [str(uuidlib.UUID(int=0xA000 + number)) for number in range(3)]
ROOT = UUIDS[0]

amounts = st.integers(1, 4)
traits = st.frozensets(st.sampled_from(TRAITS))
aggregates = st.frozensets(st.sampled_from(AGGREGATES))
records = st.builds(
    lambda total, reserved, ratio: Inventory(
        total, reserved=min(reserved, total), allocation_ratio=ratio
    ).with_defaults(None),
    amounts,
    st.integers(0, 4),
    st.sampled_from([1.0, 4.0, 16.0]),
)
partial_records = st.builds(
    Inventory,
    amounts,
    reserved=st.sampled_from([None, 0, 1]),
    step_size=st.sampled_from([None, 1, 2]),
    allocation_ratio=st.sampled_from([None, 1.0, 4.0]),
)
inventories = st.dictionaries(st.sampled_from(CLASSES), records, max_size=3)
partial_inventories = st.dictionaries(st.sampled_from(CLASSES), partial_records, max_size=3)


@st.composite
def snapshots(
    draw: st.DrawFn,
    *,
    inventory: st.SearchStrategy[dict[str, Inventory]] = inventories,
    one_tree: bool = False,
    least: int = 0,
) -> Snapshot:
    """A forest over :data:`UUIDS` and :data:`NAMES`; ``one_tree``: all below ``ROOT``."""
    uuids = draw(st.lists(st.sampled_from(UUIDS), unique=True, min_size=least))
    if one_tree:
        uuids = [ROOT, *(uuid for uuid in uuids if uuid != ROOT)]
    names = draw(st.permutations(NAMES))
    above: list[str | None] = [] if one_tree else [None]
    providers = []
    for uuid, name in zip(uuids, names, strict=False):
        parent = draw(st.sampled_from(above)) if above else None
        providers.append(
            Provider(uuid, name, parent, draw(inventory), draw(traits), draw(aggregates))
        )
        above.append(uuid)
    return Snapshot.build(providers)


def _member(tree: ProviderTree, number: int) -> str | None:
    uuids = tree.get_provider_uuids()
    return uuids[number % len(uuids)] if uuids else None


def as_dicts(inventory: dict[str, Inventory]) -> dict[str, dict[str, Any]]:
    return {name: record.as_dict() for name, record in inventory.items()}


def full(record: Inventory) -> dict[str, Any]:
    """With all fields said, so that nothing of what was there shows through."""
    return record.with_defaults(None).as_dict()


def perform(tree: ProviderTree, step: tuple[Any, ...]) -> None:
    """One step of an edit; what the tree refuses is left out, as a driver would."""
    kind, number, value = step
    who = _member(tree, number)
    try:
        if kind == "root":
            tree.new_root(value[0], value[1])
        elif who is None:
            return
        elif kind == "child":
            tree.new_child(value[0], who, value[1])
        elif kind == "remove":
            tree.remove(who)
        elif kind == "rename":
            tree.rename(who, value)
        elif kind == "move":
            tree.move(who, None if value is None else _member(tree, value))
        elif kind == "traits":
            tree.update_traits(who, value)
        elif kind == "aggregates":
            tree.update_aggregates(who, value)
        else:
            tree.update_inventory(who, as_dicts(value))
    except ValueError:
        pass


_numbers = st.integers(0, 20)
_born = st.tuples(st.sampled_from(NAMES), st.sampled_from(UUIDS))


def _step(kind: str, value: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, ...]]:
    return st.tuples(st.just(kind), _numbers, value)


def edits(
    inventory: st.SearchStrategy[dict[str, Inventory]] = inventories,
) -> st.SearchStrategy[list[tuple[Any, ...]]]:
    """Steps for :func:`perform`."""
    return st.lists(
        st.one_of(
            _step("root", _born),
            _step("child", _born),
            _step("remove", st.none()),
            _step("rename", st.sampled_from(NAMES)),
            _step("move", st.none() | _numbers),
            _step("traits", traits),
            _step("aggregates", aggregates),
            _step("inventory", inventory),
        ),
        max_size=8,
    )


def edited(base: Snapshot, steps: list[tuple[Any, ...]]) -> Snapshot:
    tree = ProviderTree(base)
    for step in steps:
        perform(tree, step)
    return tree.freeze()


def rebuilt(snapshot: Snapshot) -> Snapshot:
    """An equal one that knows nothing of where it comes from."""
    return Snapshot.build(replace(provider) for provider in snapshot.walk())


@st.composite
def edited_snapshots(draw: st.DrawFn, **options: Any) -> tuple[Snapshot, Snapshot]:
    """A snapshot, and another made from it by an edit, or one of its own."""
    before = draw(snapshots(**options))
    if draw(st.booleans()):
        return before, edited(before, draw(edits()))
    return before, draw(snapshots(**options))


def element(
    tag: str, text: str | None = None, children: Iterable[Any] = (), **attributes: str | None
) -> Element:
    """An element of a document of libvirt, without what is ``None``."""
    made = Element(tag, {name: value for name, value in attributes.items() if value is not None})
    made.text = text
    made.extend(child for child in children if child is not None)
    return made
