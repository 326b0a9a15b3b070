"""ProviderTree: the methods that authors of Nova drivers know, as they know them."""

import copy
import uuid as uuidlib
from collections.abc import Callable, Iterable
from enum import Enum, IntEnum
from typing import Any
from uuid import UUID

import pytest

from reportclient.model import MAX_INT, SHARES_VIA_AGGREGATE
from reportclient.provider_tree import Claims, ProviderTree, key_of, own_key, own_uuid
from reportclient.snapshot import EMPTY

CN1 = "11111111-1111-4111-8111-111111111111"
CN2 = "22222222-2222-4222-8222-222222222222"
NUMA1 = "aaaaaaaa-0000-4000-8000-000000000001"
NUMA2 = "aaaaaaaa-0000-4000-8000-000000000002"
PF = "aaaaaaaa-0000-4000-8000-0000000000f1"
AGG1 = "dddddddd-0000-4000-8000-000000000001"
AGG2 = "dddddddd-0000-4000-8000-000000000002"
NOBODY = "00000000-0000-4000-8000-00000000dead"
DEPTH = 3000


@pytest.fixture
def tree() -> ProviderTree:
    """Two hosts; the first has two NUMA nodes, one of them a device."""
    tree = ProviderTree()
    tree.new_root("cn1", CN1, generation=7)
    tree.new_root("cn2", CN2, generation=1)
    tree.new_child("numa1", "cn1", NUMA1, generation=3)
    tree.new_child("numa2", CN1, NUMA2, generation=0)
    tree.new_child("pf", "numa1", PF, generation=2)
    return tree


# -- a provider by its name or its UUID, everywhere

QUESTIONS: dict[str, Callable[[ProviderTree, str], Any]] = {
    "data": lambda tree, who: tree.data(who),
    "get_provider_uuids": lambda tree, who: tree.get_provider_uuids(who),
    "get_provider_uuids_in_tree": lambda tree, who: tree.get_provider_uuids_in_tree(who),
    "has_inventory": lambda tree, who: tree.has_inventory(who),
    "has_inventory_changed": lambda tree, who: tree.has_inventory_changed(who, {}),
    "has_traits": lambda tree, who: tree.has_traits(who, ["CUSTOM_A"]),
    "have_traits_changed": lambda tree, who: tree.have_traits_changed(who, ["CUSTOM_A"]),
    "in_aggregates": lambda tree, who: tree.in_aggregates(who, [AGG1]),
    "have_aggregates_changed": lambda tree, who: tree.have_aggregates_changed(who, [AGG1]),
}
CHANGES: dict[str, Callable[[ProviderTree, str], Any]] = {
    "remove": lambda tree, who: tree.remove(who),
    "new_child": lambda tree, who: tree.new_child("baby", who, NOBODY),
    "rename": lambda tree, who: tree.rename(who, "another name"),
    "move": lambda tree, who: tree.move(who, CN2),
    "update_inventory": lambda tree, who: tree.update_inventory(who, {"VCPU": {"total": 3}}),
    "update_traits": lambda tree, who: tree.update_traits(who, ["CUSTOM_Z"]),
    "add_traits": lambda tree, who: tree.add_traits(who, "CUSTOM_Z"),
    "remove_traits": lambda tree, who: tree.remove_traits(who, "CUSTOM_A"),
    "update_aggregates": lambda tree, who: tree.update_aggregates(who, [AGG2]),
    "add_aggregates": lambda tree, who: tree.add_aggregates(who, AGG2),
    "remove_aggregates": lambda tree, who: tree.remove_aggregates(who, AGG1),
    "set_own_traits": lambda tree, who: tree.set_own_traits(who, ["CUSTOM_Z"]),
    "set_own_aggregates": lambda tree, who: tree.set_own_aggregates(who, [AGG2]),
    "set_own_children": lambda tree, who: tree.set_own_children({"cn1_card": who}),
    "update_resources": lambda tree, who: tree.update_resources(who, {"CUSTOM_PMEM": {"ns_0"}}),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_closed_tree_can_be_read_and_copied_but_not_edited(tree, change: str) -> None:
    before = tree.freeze()
    tree.close()
    edits = [
        lambda: CHANGES[change](tree, "pf"),
        lambda: tree.new_root("cn3", NOBODY),
        lambda: tree.populate_from_iterable([]),
        lambda: tree.unanswered("source"),
        lambda: tree.source("source").__enter__(),
    ]
    for edit in edits:
        with pytest.raises(ValueError, match="this tree is closed"):
            edit()
    assert tree.freeze() == before
    assert set(tree.claims) == {""}
    CHANGES[change](copy.deepcopy(tree), "pf")


def furnished(tree: ProviderTree) -> ProviderTree:
    tree.update_traits("numa1", ["CUSTOM_A"])
    tree.update_aggregates("numa1", [AGG1])
    tree.update_inventory("numa1", {"VCPU": {"total": 2}})
    return tree


def shown(tree: ProviderTree) -> dict[str, Any]:
    return {uuid: tree.data(uuid) for uuid in tree.get_provider_uuids()}


@pytest.mark.parametrize("method", QUESTIONS)
def test_questions_take_a_name_or_a_uuid_in_any_spelling(method: str, tree: ProviderTree) -> None:
    furnished(tree)
    ask = QUESTIONS[method]
    assert ask(tree, "numa1") == ask(tree, NUMA1)
    assert ask(tree, NUMA1.upper()) == ask(tree, NUMA1)
    assert ask(tree, NUMA1.replace("-", "")) == ask(tree, NUMA1)


@pytest.mark.parametrize("method", CHANGES)
def test_changes_take_a_name_or_a_uuid(method: str, tree: ProviderTree) -> None:
    by_name, by_uuid = furnished(tree), copy.deepcopy(tree)
    before = shown(tree)
    CHANGES[method](by_name, "numa1")
    CHANGES[method](by_uuid, NUMA1)
    assert shown(by_name) == shown(by_uuid)
    assert shown(by_name) != before, "otherwise nothing was compared"


@pytest.mark.parametrize("method", QUESTIONS | CHANGES)
@pytest.mark.parametrize("who", ["nobody", NOBODY])
def test_an_unknown_provider_is_a_value_error_that_names_it(
    method: str, who: str, tree: ProviderTree
) -> None:
    before = shown(tree)
    with pytest.raises(ValueError, match=who):
        (QUESTIONS | CHANGES)[method](tree, who)
    assert shown(tree) == before


# -- adding


def test_a_generation_is_kept_and_a_new_provider_has_none(tree: ProviderTree) -> None:
    assert tree.new_root("cn3", NOBODY, generation=42) == NOBODY
    assert tree.data("cn3").generation == 42
    assert tree.data(tree.new_child("baby", "cn3")).generation is None


def test_what_somebody_renamed_in_placement_is_taken_back(tree: ProviderTree) -> None:
    """Nova's idiom: ``if not tree.exists(name): tree.new_root(name, uuid)``."""
    edit = ProviderTree(tree.freeze())
    assert edit.new_root("pool", CN2) == CN2
    assert edit.new_child("device", "cn1", PF) == PF
    assert (edit.data(CN2).name, edit.data(CN2).parent_uuid) == ("pool", None)
    assert (edit.data(PF).name, edit.data(PF).parent_uuid) == ("device", CN1)
    with pytest.raises(ValueError, match="already exists"):
        edit.new_root("another", CN2)


@pytest.mark.parametrize(
    ("name", "root", "key"),
    [
        ("cn1_gpu", "cn1", "gpu"),
        ("cn1.example.org_gpu", "cn1.example.org", "gpu"),
        ("CN1_Gpu0", "cn1", "gpu0"),
        ("cn1_cn1_gpu", "cn1", "cn1_gpu"),
        ("cn10_gpu", "cn1", "cn10_gpu"),
        ("gpu", "cn1", "gpu"),
    ],
)
def test_a_key_is_the_name_without_the_hosts(name: str, root: str, key: str) -> None:
    tree = ProviderTree()
    tree.new_root(root, CN1)
    uuid = tree.new_child(name, CN1)
    assert key_of(name, root) == key and uuid == own_uuid(CN1, key) == own_uuid(CN1, key.upper())
    assert own_key(CN1, uuid, f"any_{key}") == own_key(CN1, uuid, key) == key
    assert own_key(CN1, own_uuid(CN1, key, "d"), f"any_{key}", ["", "d"]) == key
    assert own_key(CN1, uuid, f"any{key}") is None and own_key(CN2, uuid, key) is None


def test_an_unnumbered_child_gets_the_same_uuid_in_every_life() -> None:
    made = []
    for _ in range(2):
        tree = ProviderTree()
        tree.new_root("cn1", CN1)
        tree.new_root("cn2", CN2)
        made.append([tree.new_child("gpu", CN1), tree.new_child("gpu2", CN1)])
    assert made[0] == made[1]
    assert len(set(made[0])) == 2
    for value in made[0]:
        assert str(uuidlib.UUID(value)) == value


def test_an_ironic_node_may_be_named_by_its_own_uuid(tree: ProviderTree) -> None:
    tree.new_root(NOBODY, NOBODY)
    assert tree.data(NOBODY).name == NOBODY
    tree.rename(NOBODY, "rack-7")
    tree.rename("rack-7", NOBODY)
    assert tree.data(NOBODY).name == NOBODY and not tree.exists("rack-7")


# -- walking


@pytest.mark.parametrize("member", [CN1, "numa1", "numa2", PF])
def test_any_member_leads_to_the_whole_tree(member: str, tree: ProviderTree) -> None:
    uuids = tree.get_provider_uuids_in_tree(member)
    assert uuids == tree.get_provider_uuids(CN1)
    assert tree.get_provider_uuids_in_tree("cn2") == [CN2]


# -- data is a copy


def test_what_data_returns_can_be_changed_without_changing_the_tree(tree: ProviderTree) -> None:
    furnished(tree)
    tree.update_resources("numa1", {"CUSTOM_PMEM": {"ns_0"}})
    before = copy.deepcopy(tree.data("numa1"))
    data = tree.data("numa1")
    data.inventory["VCPU"]["total"] = 99
    data.inventory["CUSTOM_NEW"] = {"total": 1}
    data.traits.add("CUSTOM_MINE")
    data.aggregates.clear()
    data.resources["CUSTOM_PMEM"].add("ns_1")
    data.resources["CUSTOM_OTHER"] = set()
    assert tree.data("numa1") == before


def test_what_was_handed_in_can_be_changed_without_changing_the_tree(tree: ProviderTree) -> None:
    inventory = {"VCPU": {"total": 2}}
    traits, aggregates, resources = {"CUSTOM_A"}, {AGG1}, {"CUSTOM_PMEM": {"ns_0"}}
    tree.update_inventory("cn1", inventory)
    tree.update_traits("cn1", traits)
    tree.update_aggregates("cn1", aggregates)
    tree.update_resources("cn1", resources)
    before = copy.deepcopy(tree.data("cn1"))
    inventory["VCPU"]["total"] = 99
    traits.add("CUSTOM_B")
    aggregates.clear()
    resources["CUSTOM_PMEM"].clear()
    assert tree.data("cn1") == before


# -- inventory

FULL = {
    "total": 8,
    "reserved": 1,
    "min_unit": 1,
    "max_unit": 8,
    "step_size": 1,
    "allocation_ratio": 16.0,
}


def test_inventory_is_compared_by_what_a_record_says(tree: ProviderTree) -> None:
    assert not tree.has_inventory("cn1")
    tree.update_inventory("cn1", {"VCPU": FULL})
    assert tree.has_inventory("cn1")
    for same in (FULL, {"total": 8}, {"total": 8, "allocation_ratio": 16.0}):
        assert not tree.has_inventory_changed("cn1", {"VCPU": same}), same
    for other in ({"total": 9}, {"total": 8, "reserved": 0}, {**FULL, "step_size": 2}):
        assert tree.has_inventory_changed("cn1", {"VCPU": other}), other
    assert tree.has_inventory_changed("cn1", {})
    assert tree.has_inventory_changed("cn1", {"VCPU": FULL, "MEMORY_MB": {"total": 1}})
    assert tree.has_inventory_changed("cn1", {"MEMORY_MB": FULL})


@pytest.mark.parametrize("method", ["update_inventory", "update_traits", "update_aggregates"])
def test_a_generation_is_noted_even_where_nothing_changed(method: str, tree: ProviderTree) -> None:
    nothing: Any = {} if method == "update_inventory" else set()
    assert getattr(tree, method)("numa1", nothing, generation=77) is False
    assert tree.data("numa1").generation == 77
    getattr(tree, method)("numa1", nothing)
    assert tree.data("numa1").generation == 77


@pytest.mark.parametrize(
    ("record", "named"),
    [
        ({}, "total"),
        ({"total": None}, "total"),
        ({"total": "8"}, "total"),
        ({"total": True}, "total"),
        ({"total": 8, "ratio": 2.0}, "ratio"),
        ({"total": 8, "reserved": 1.5}, "reserved"),
        ({"total": 8, "allocation_ratio": "16"}, "allocation_ratio"),
        ({"total": 8, "allocation_ratio": 10**400}, "allocation_ratio is too large"),
    ],
)
def test_a_record_that_can_not_be_read_names_provider_class_and_field(
    record: dict[str, Any], named: str, tree: ProviderTree
) -> None:
    before = shown(tree)
    with pytest.raises(ValueError, match=f"cn1.*CUSTOM_GPU.*{named}"):
        tree.update_inventory("cn1", {"VCPU": FULL, "CUSTOM_GPU": record})
    assert shown(tree) == before


NO_DICT = r"inventory of provider cn1: a dict .* is needed"
NO_CLASS = "inventory of provider cn1: .* is not the name of a class"
NO_TRAIT = "traits of provider cn1: .* is not a name"
VCPU = {"total": 8}


@pytest.mark.parametrize(
    ("method", "values", "said"),
    [
        ("new_root", ("cn1", NOBODY), "already exists"),
        ("new_root", ("other", CN1), "already exists"),
        ("new_child", ("numa1", "cn2"), "already exists"),
        ("new_child", ("other", "cn2", NUMA1.upper()), "already exists"),
        ("new_child", ("cn2", "cn1", NOBODY), "already exists"),
        ("new_root", ("cn9", "not-a-uuid"), "not-a-uuid"),
        ("new_child", ("baby", "cn1", "not-a-uuid"), "not-a-uuid"),
        ("new_child", ("gpu", "nmua1"), r"no such parent: nmua1; is numa1 meant\?"),
        ("new_child", ("gpu", "nowhere-at-all"), "no such parent: nowhere-at-all$"),
        ("new_child", ("sd\udcff", "cn1"), r"has to be Unicode text, not 'sd\\udcff'"),
        ("move", ("numa1", "nc1"), r"no such parent: nc1; is cn1 meant\?"),
        ("update_inventory", ("cn1", None), NO_DICT),
        ("update_inventory", ("cn1", []), NO_DICT),
        ("update_inventory", ("cn1", "VCPU"), NO_DICT),
        ("update_inventory", ("cn1", {"VCPU": VCPU, None: VCPU}), NO_CLASS),
        ("update_inventory", ("cn1", {"VCPU": VCPU, ("CUSTOM_A",): VCPU}), NO_CLASS),
        (
            "update_inventory",
            ("cn1", {"VCPU": {**VCPU, "alocation_ratio": 2}}),
            "unknown field 'alocation_ratio' .*; is allocation_ratio meant",
        ),
        (
            "update_inventory",
            ("cn1", {"VCPU": {**VCPU, "colour": 2}}),
            "unknown field 'colour' .*; known are total, reserved, min_unit",
        ),
        ("add_traits", ("cn1", "CUSTOM_A", None), NO_TRAIT),
        ("update_traits", ("cn1", ["CUSTOM_A", 7]), NO_TRAIT),
        ("set_own_traits", ("cn1", ["CUSTOM_A", b"CUSTOM_A"]), NO_TRAIT),
        ("set_own_traits", ("cn1", "CUSTOM_GOLD"), "a list or a set is needed, not the string"),
        ("add_aggregates", ("cn1", AGG1, "rack-7"), "cn1.*rack-7"),
    ],
)
def test_an_invalid_edit_is_refused_with_its_cause_and_changes_nothing(
    tree: ProviderTree, method: str, values: tuple[Any, ...], said: str
) -> None:
    before = shown(tree)
    with pytest.raises(ValueError, match=said):
        getattr(tree, method)(*values)
    assert shown(tree) == before


class Said(str, Enum):  # noqa: UP042  # as authors write it
    """Prints as ``Said.GPU``."""

    GPU = "CUSTOM_GPU"
    NAME = "cn1_gpu"
    AGGREGATE = AGG1


class Amount(IntEnum):
    FOUR = 4


def test_members_of_enumerations_are_what_they_stand_for(tree: ProviderTree) -> None:
    uuid = tree.new_child(Said.NAME, "cn1")
    for _ in range(2):
        tree.update_inventory(uuid, {Said.GPU: {"total": Amount.FOUR}})
        tree.add_traits(uuid, Said.GPU)
        tree.set_own_traits(uuid, [Said.GPU])
        tree.update_aggregates(uuid, [Said.AGGREGATE])
    told = tree.data(uuid)
    assert f"{told.name} {told.inventory} {told.traits} {told.aggregates}" == (
        f"cn1_gpu {{'CUSTOM_GPU': {{'total': 4}}}} {{'CUSTOM_GPU'}} {{'{AGG1}'}}"
    )
    said = tree.claims[""]
    assert f"{said.on(uuid).classes} {said.on(uuid).traits}" == "{0} {0}".format(
        frozenset(["CUSTOM_GPU"])
    )


def test_uuids_may_be_objects(tree: ProviderTree) -> None:
    uuid = tree.new_child("cn1_gpu", UUID(tree.data("cn1").uuid), UUID(NOBODY))
    assert uuid == NOBODY and tree.exists(UUID(NOBODY))
    tree.add_aggregates(UUID(NOBODY), UUID(AGG1))
    assert tree.data(NOBODY).aggregates == {AGG1}


# -- a list of children

FLAT = {"cn1_b": "cn1", "cn1_a": "cn1"}


def claimed(uuids: Iterable[str]) -> dict[str, Claims]:
    return dict.fromkeys(uuids, Claims(provider=True))


def below_cn1(tree: ProviderTree) -> dict[str, str]:
    """The parents of all below cn1 by name."""
    providers = [tree.data(uuid) for uuid in tree.get_provider_uuids("cn1")[1:]]
    return {each.name: tree.data(each.parent_uuid or "").name for each in providers}


def test_children_that_are_not_listed_any_more_go_and_those_of_others_stay(tree) -> None:
    others = below_cn1(tree)
    tree.set_own_children(FLAT)
    tree.add_traits("cn1_b", "CUSTOM_KEPT")
    own = {tree.data(name).uuid for name in FLAT}
    tree = ProviderTree(tree.freeze(), last_claims=lambda _: claimed(own))
    tree.set_own_children({"cn1_b": "cn1", "cn1_c": "pf"})
    assert below_cn1(tree) == {**others, "cn1_b": "cn1", "cn1_c": "pf"}
    assert tree.has_traits("cn1_b", ["CUSTOM_KEPT"])
    tree.set_own_children({"cn1_c": "pf"})
    assert below_cn1(tree) == {**others, "cn1_c": "pf"}


@pytest.mark.parametrize("field", ["total", "reserved", "min_unit"])
@pytest.mark.parametrize("kind", [float, bool])
def test_a_number_of_a_wrong_type_is_refused_though_it_is_as_before(tree, field, kind) -> None:
    record = {"total": 1, "reserved": 1, "min_unit": 1, "allocation_ratio": 1}
    tree.update_inventory("cn1", {"VCPU": record})
    assert not tree.update_inventory("cn1", {"VCPU": {**record, "allocation_ratio": 1.0}})
    for method in (tree.update_inventory, tree.has_inventory_changed):
        with pytest.raises(ValueError, match=f"VCPU: {field} has to be a whole number"):
            method("cn1", {"VCPU": {**record, field: kind(1)}})


@pytest.mark.parametrize("children", [["cn1_b"], "cn1_b", None])
def test_children_that_are_no_mapping_are_refused(tree, children: Any) -> None:
    with pytest.raises(ValueError, match="set_own_children needs {name: parent}, not"):
        tree.set_own_children(children)


def test_children_are_listed_in_any_order_and_may_change_places(tree: ProviderTree) -> None:
    others = below_cn1(tree)
    tree.set_own_children({"cn1_card": "cn1_cell0", "cn1_cell0": "cn1", "cn1_cell1": "cn1"})
    uuid = tree.data("cn1_card").uuid
    now = {"cn1_card": "cn1_cell1", "cn1_cell1": "cn1"}
    own = frozenset(tree.data(name).uuid for name in ("cn1_card", "cn1_cell0", "cn1_cell1"))
    tree = ProviderTree(tree.freeze(), last_claims=lambda _: claimed(own))
    tree.set_own_children(now)
    assert below_cn1(tree) == {**others, **now} and tree.data("cn1_card").uuid == uuid
    with pytest.raises(ValueError, match="their own ancestors: cn1_x, cn1_y"):
        tree.set_own_children({"cn1_x": "cn1_y", "cn1_y": "cn1_x"})


def test_without_an_agent_nothing_is_known_to_be_ones_own_and_nothing_goes(tree) -> None:
    others = below_cn1(tree)
    tree.set_own_children(FLAT)
    tree.set_own_children({})
    assert below_cn1(tree) == {**others, **FLAT} and not tree.get_own_uuids()


def test_with_an_agent_a_sources_children_are_those_that_it_reported(tree: ProviderTree) -> None:
    tree = ProviderTree(
        tree.freeze(), last_claims={"": claimed([CN1]), "pci": claimed([PF, NUMA2])}.__getitem__
    )
    with tree.source("pci"):
        assert tree.get_own_uuids() == {PF, NUMA2}
        tree.set_own_children({"numa2": "cn1"})
    tree.set_own_children({})
    assert below_cn1(tree) == {"numa1": "cn1", "numa2": "cn1"}


def test_a_source_leaves_what_another_one_lists_now_and_claims_it_no_more(tree) -> None:
    sources = {"": {}, "new": {}, "old": claimed([PF, NUMA2])}
    tree = ProviderTree(tree.freeze(), last_claims=sources.__getitem__)
    for source, listed in {"new": "pf", "old": "numa2"}.items():
        with tree.source(source):
            tree.set_own_children({listed: below_cn1(tree)[listed]})
    assert {"pf", "numa2"} <= below_cn1(tree).keys()
    assert {name: each.on(PF).provider for name, each in tree.claims.items()} == {
        "": False,
        "new": True,
        "old": False,
    }


def test_the_root_of_a_tree_is_no_sharing_provider_that_could_be_unlisted(tree) -> None:
    tree.add_traits("cn1", SHARES_VIA_AGGREGATE)
    tree.new_root("pool", NOBODY)
    tree.add_traits("pool", SHARES_VIA_AGGREGATE)
    tree = ProviderTree(tree.freeze(), last_claims=lambda _: claimed([CN1, NOBODY]), root=CN1)
    tree = copy.deepcopy(tree)
    tree.set_own_children({}, sharing=True)
    assert tree.exists("cn1") and not tree.exists("pool")


# -- traits and aggregates


def test_traits_may_be_iterated_once_and_aggregates_have_any_spelling(tree: ProviderTree) -> None:
    assert tree.update_traits("cn1", iter(["CUSTOM_A", "CUSTOM_B", "CUSTOM_A"])) is True
    assert tree.data("cn1").traits == {"CUSTOM_A", "CUSTOM_B"}
    assert tree.update_aggregates("cn1", [AGG1.upper(), AGG2]) is True
    assert tree.data("cn1").aggregates == {AGG1, AGG2}


def test_resources_are_kept_and_tell_whether_they_changed(tree: ProviderTree) -> None:
    assert tree.data("cn1").resources == {}
    assert tree.update_resources("cn1", {"CUSTOM_PMEM": {"ns_0"}}) is True
    assert tree.update_resources("cn1", {"CUSTOM_PMEM": {"ns_0"}}) is False
    assert tree.data("cn1").resources == {"CUSTOM_PMEM": {"ns_0"}}
    assert tree.freeze().get(CN1) is not None


# -- removing, renaming, moving


def test_what_was_removed_can_come_back_as_something_else_in_the_same_edit() -> None:
    tree = ProviderTree()
    tree.new_root("cn1", CN1, generation=5)
    tree.new_child("gpu", CN1, NUMA1, generation=5)
    tree.new_child("port", NUMA1, PF)
    tree.add_traits("gpu", "CUSTOM_OLD")
    edit = ProviderTree(tree.freeze(), {CN1: 5, NUMA1: 5})
    edit.remove("gpu")
    edit.new_child("port", CN1, NUMA2)  # a name that went along
    edit.new_child("gpu", CN1, PF)  # and a UUID
    assert edit.data("gpu").uuid == PF and edit.data("port").uuid == NUMA2
    assert edit.data("gpu").traits == set() and edit.data("gpu").generation is None
    assert set(edit.get_provider_uuids()) == {CN1, NUMA2, PF}
    frozen = edit.freeze()
    assert set(frozen.providers) == {CN1, NUMA2, PF}
    assert frozen.named("gpu") == frozen.get(PF)
    assert set(frozen.children(CN1)) == {NUMA2, PF} and not list(frozen.children(NUMA1))


def test_a_renamed_provider_answers_to_its_new_name_only(tree: ProviderTree) -> None:
    tree.rename("numa1", "numa-left")
    with pytest.raises(ValueError, match="numa2"):
        tree.rename("numa-left", "numa2")
    tree.rename("numa2", "numa1")
    tree.rename("numa-left", "numa2")
    frozen = tree.freeze()
    assert frozen.named("numa2") == frozen.get(NUMA1)
    assert frozen.named("numa1") == frozen.get(NUMA2)
    assert frozen.named("numa-left") is None


# -- as Placement lists them


def listed(uuid: str, name: str, parent: str | None = None, generation: int = 1) -> dict[str, Any]:
    return {
        "uuid": uuid,
        "name": name,
        "parent_provider_uuid": parent,
        "generation": generation,
        "root_provider_uuid": "ignored",
        "links": [],
    }


def test_a_refused_listing_inside_a_source_leaves_the_claims_as_they_were() -> None:
    tree = ProviderTree()
    tree.new_root("cn1", CN1)
    with tree.source("pci"):
        with pytest.raises(ValueError, match="own ancestors|unknown|no such"):
            tree.populate_from_iterable(
                [{"uuid": PF, "name": "pf", "parent_provider_uuid": NOBODY}]
            )
        tree.add_traits("cn1", "CUSTOM_PCI")
    tree.add_traits("cn1", "CUSTOM_OWN")
    for each in (tree, copy.deepcopy(tree)):
        assert "CUSTOM_PCI" in each.claims["pci"].on(CN1).traits
        assert "CUSTOM_OWN" in each.claims[""].on(CN1).traits


def test_a_listing_populates_in_any_order() -> None:
    rows = [listed(PF, "pf", NUMA1, 4), listed(NUMA1, "numa1", CN1), listed(CN1, "cn1")]
    for order in (rows, rows[::-1], [rows[1], rows[0], rows[2]]):
        tree = ProviderTree()
        tree.populate_from_iterable(iter(order))
        assert tree.get_provider_uuids() == [CN1, NUMA1, PF]
        assert tree.data(PF).generation == 4
        assert tree.data("numa1").parent_uuid == CN1


def test_a_listed_provider_replaces_the_one_that_was_there(tree: ProviderTree) -> None:
    furnished(tree)
    tree.populate_from_iterable([listed(NUMA1, "numa-new", CN2, generation=9)])
    data = tree.data(NUMA1)
    assert (data.name, data.parent_uuid, data.generation) == ("numa-new", CN2, 9)
    assert not data.inventory and not data.traits and not data.aggregates
    assert not tree.exists("numa1")
    assert not tree.exists(PF), "what is below it and not listed is disowned"
    assert tree.exists("numa2")


def test_listed_providers_keep_their_listed_parents_and_may_swap_names(tree: ProviderTree) -> None:
    tree.populate_from_iterable([listed(PF, "pf", NUMA1), listed(NUMA1, "numa1", CN1)])
    assert tree.get_provider_uuids("numa1") == [NUMA1, PF]
    tree.populate_from_iterable([listed(NUMA1, "numa2", CN1), listed(NUMA2, "numa1", CN1)])
    assert (tree.data("numa1").uuid, tree.data("numa2").uuid) == (NUMA2, NUMA1)
    tree.populate_from_iterable([{"uuid": NOBODY, "name": "cn3"}])
    assert tree.data("cn3").generation is None and tree.data("cn3").parent_uuid is None


@pytest.mark.parametrize(
    ("rows", "culprit"),
    [
        ([listed(NOBODY, "orphan", AGG1)], AGG1),
        ([listed(CN1, "cn1"), listed(NOBODY, "orphan", AGG1)], AGG1),
        ([listed(NUMA1, "numa1", NUMA2), listed(NUMA2, "numa2", NUMA1)], NUMA1),
        ([listed(NUMA1, "numa1", NUMA1)], NUMA1),
        ([listed(CN1, "cn1"), listed(NOBODY, "orphan", NUMA1)], NUMA1),
        ([listed(NUMA1, "numa1", CN1), listed(NOBODY, "cn2", CN1)], "cn2"),
    ],
    ids=["orphan", "orphan among others", "cycle", "own parent", "disowned parent", "taken name"],
)
def test_orphans_cycles_and_taken_names_are_refused_and_change_nothing(
    rows: list[dict[str, Any]], culprit: str, tree: ProviderTree
) -> None:
    before = shown(tree)
    with pytest.raises(ValueError, match=culprit):
        tree.populate_from_iterable(rows)
    assert shown(tree) == before
    assert tree.freeze() == copy.deepcopy(tree).freeze()


# -- whole trees


def test_a_deep_copy_and_its_original_go_their_own_ways(tree: ProviderTree) -> None:
    furnished(tree).update_resources("cn1", {"CUSTOM_PMEM": {"ns_0"}})
    before = shown(tree)
    twin = copy.deepcopy(tree)
    assert shown(twin) == before
    for change in CHANGES.values():
        other = copy.deepcopy(twin)
        change(other, "numa1")
        assert shown(other) != before
        assert shown(tree) == before and shown(twin) == before
    tree.remove("cn1")
    assert shown(twin) == before


def test_a_subtree_is_a_tree_of_its_own(tree: ProviderTree) -> None:
    furnished(tree).update_resources("numa1", {"CUSTOM_PMEM": {"ns_0"}})
    before = shown(tree)
    for who in ("cn1", CN1):
        part = tree.subtree(who)
        assert isinstance(part, ProviderTree)
        assert part.get_provider_uuids() == tree.get_provider_uuids("cn1")
        assert shown(part) == {uuid: before[uuid] for uuid in part.get_provider_uuids()}
        assert not part.exists("cn2")
        part.remove("numa1")
        part.add_traits("cn1", "CUSTOM_PART")
        assert shown(tree) == before
    with pytest.raises(ValueError, match="not a root"):
        tree.subtree("numa1")


def test_freezing_gives_the_base_back_when_nothing_is_different(tree: ProviderTree) -> None:
    base = furnished(tree).freeze()
    edit = ProviderTree(base)
    assert edit.freeze() is base
    edit.add_traits("cn1", "CUSTOM_X")
    edit.remove_traits("cn1", "CUSTOM_X")
    edit.rename("numa2", "x")
    edit.rename("x", "numa2")
    edit.move("pf", "cn2")
    edit.move("pf", "numa1")
    edit.update_inventory("numa1", {})
    edit.update_inventory("numa1", {"VCPU": {"total": 2}})
    edit.new_child("baby", "cn1")
    edit.remove("baby")
    edit.remove("numa2")
    edit.new_child("numa2", "cn1", NUMA2)
    assert edit.freeze() is base
    assert ProviderTree().freeze() is EMPTY


# -- depth


@pytest.fixture(scope="module")
def deep_rows() -> list[dict[str, Any]]:
    uuids = [str(uuidlib.UUID(int=number + 1)) for number in range(DEPTH)]
    parents = [None, *uuids[:-1]]
    return [
        listed(uuid, f"level{number}", parent)
        for number, (uuid, parent) in enumerate(zip(uuids, parents, strict=True))
    ]


@pytest.fixture
def deep(deep_rows: list[dict[str, Any]]) -> ProviderTree:
    tree = ProviderTree()
    tree.populate_from_iterable(deep_rows)
    return tree


def test_deep_trees_walk_copy_freeze_and_cut(deep: ProviderTree) -> None:
    bottom = f"level{DEPTH - 1}"
    assert len(deep.get_provider_uuids()) == DEPTH
    assert deep.get_provider_uuids_in_tree(bottom) == deep.get_provider_uuids("level0")
    snapshot = deep.freeze()
    assert snapshot.root_of(deep.data(bottom).uuid) == deep.data("level0").uuid
    assert len(list(snapshot.walk())) == DEPTH
    assert shown(copy.deepcopy(deep)) == shown(deep)
    assert len(deep.subtree("level0").get_provider_uuids()) == DEPTH
    deep.populate_from_iterable([listed(NOBODY, "one more", deep.data(bottom).uuid)])
    assert deep.get_provider_uuids()[-1] == NOBODY
    deep.remove("level1500")
    assert len(deep.get_provider_uuids()) == 1500
    assert len(deep.freeze()) == 1500


@pytest.mark.parametrize("method", [*QUESTIONS, *CHANGES])
def test_deep_trees_take_every_method(method: str, deep: ProviderTree) -> None:
    who = f"level{DEPTH - 1}"
    deep.new_root("cn2", CN2)
    deep.update_traits(who, ["CUSTOM_A"])
    deep.update_aggregates(who, [AGG1])
    before = deep.data(who)
    (QUESTIONS | CHANGES)[method](deep, who)
    elsewhere = ("remove", "new_child", "set_own_children")
    assert method in elsewhere or method in QUESTIONS or deep.data(before.uuid) != before
    assert deep.has_sharing_provider("VCPU") is False
    assert deep.exists(who) is (method not in ("remove", "rename"))


TOO_LONG = "n" * 201


@pytest.mark.parametrize("name", [None, "", 7, b"gpu0", TOO_LONG])
def test_what_is_no_name_is_refused(tree: ProviderTree, name: Any) -> None:
    why = "has at most 200 characters" if name == TOO_LONG else "has to be a non-empty text"
    for refused in (
        lambda: tree.new_child(name, "numa1"),
        lambda: tree.new_child(name, "numa1", NOBODY),
        lambda: tree.new_root(name, NOBODY),
        lambda: tree.rename("numa1", name),
    ):
        with pytest.raises(ValueError, match=f"a provider's name {why}"):
            refused()
    assert len(tree.get_provider_uuids()) == 5
    assert tree.new_child(TOO_LONG[1:], "numa1")


def test_deep_trees_refuse_cycles(deep: ProviderTree) -> None:
    with pytest.raises(ValueError, match="below itself"):
        deep.move("level0", f"level{DEPTH - 1}")


def test_the_largest_amount_is_placements() -> None:
    tree = ProviderTree()
    tree.new_root("cn1", CN1)
    tree.update_inventory("cn1", {"VCPU": {"total": MAX_INT, "max_unit": MAX_INT}})
    assert tree.freeze().get(CN1).inventory["VCPU"].problem() is None
