"""The fake answers as a real Placement does: each scenario is sent to both."""

import copy
from collections.abc import Callable, Iterable
from typing import Any

import pytest

from reportclient.errors import (
    Conflict,
    InUse,
    NameTaken,
    NotFound,
    PlacementError,
    Rejected,
    TooOld,
    UnknownNames,
    Unreachable,
)
from tests.servers.placement import RealPlacement
from tests.stranger import FakePlacement

ROOT = "00000000-0000-4000-8000-000000000001"
CHILD = "00000000-0000-4000-8000-000000000002"
OTHER = "00000000-0000-4000-8000-000000000003"
NOBODY = "00000000-0000-4000-8000-00000000dead"
AGG1 = "00000000-0000-4000-8000-0000000000a1"
AGG2 = "00000000-0000-4000-8000-0000000000a2"
GUEST = "00000000-0000-4000-8000-0000000000c1"
GUEST2 = "00000000-0000-4000-8000-0000000000c2"

Step = tuple[Any, ...]  # method, path, body?, microversion?


def of(uuid: str, what: str = "") -> str:
    return f"/resource_providers/{uuid}{'/' + what if what else ''}"


def create(uuid: str, name: str, parent: str | None = None) -> Step:
    body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
    return ("POST", "/resource_providers", body)


def inventory(uuid: str, generation: int, **classes: Any) -> Step:
    return ("PUT", of(uuid, "inventories"), inventories(generation, **classes))


def inventories(generation: int, **classes: Any) -> dict[str, Any]:
    records = {
        name: value if isinstance(value, dict) else {"total": value}
        for name, value in classes.items()
    }
    return {"inventories": records, "resource_provider_generation": generation}


def traits(uuid: str, generation: int, *names: str) -> Step:
    body = {"traits": list(names), "resource_provider_generation": generation}
    return ("PUT", of(uuid, "traits"), body)


def aggregates(uuid: str, generation: int, *members: str) -> Step:
    body = {"aggregates": list(members), "resource_provider_generation": generation}
    return ("PUT", of(uuid, "aggregates"), body)


def uses(generation: int | None, **by_name: Any) -> dict[str, Any]:
    providers = {"root": ROOT, "child": CHILD, "nobody": NOBODY}
    return {
        "allocations": {providers[name]: {"resources": used} for name, used in by_name.items()},
        "project_id": "p",
        "user_id": "u",
        "consumer_generation": generation,
        "consumer_type": "INSTANCE",
    }


def allocate(generation: int | None, consumer: str = GUEST, **by_name: Any) -> Step:
    return ("PUT", f"/allocations/{consumer}", uses(generation, **by_name))


def reshape(
    by_uuid: dict[str, Any], allocations: dict[str, Any] | None = None, microversion: str = "1.39"
) -> Step:
    body = {"inventories": by_uuid, "allocations": allocations or {}}
    return ("POST", "/reshaper", body, microversion)


def typeless(generation: int | None, **by_name: Any) -> dict[str, Any]:
    """A consumer's record of microversions before 1.38."""
    return {k: v for k, v in uses(generation, **by_name).items() if k != "consumer_type"}


def typed(generation: int | None, consumer_type: object, **by_name: Any) -> dict[str, Any]:
    return {**uses(generation, **by_name), "consumer_type": consumer_type}


TREE = [create(ROOT, "host"), create(CHILD, "host_gpu", ROOT), create(OTHER, "store")]
EVERYTHING: list[Step] = [
    *(("GET", of(uuid)) for uuid in (ROOT, CHILD, OTHER)),
    *(
        ("GET", of(uuid, what))
        for uuid in (ROOT, CHILD, OTHER)
        for what in ("inventories", "traits", "aggregates", "usages", "allocations")
    ),
    ("GET", f"/allocations/{GUEST}"),
    ("GET", f"/allocations/{GUEST2}"),
]

SCENARIOS: dict[str, list[Step]] = {
    "providers are created, shown, renamed, moved and deleted": [
        *TREE,
        create(ROOT, "another name"),
        create(NOBODY, "host"),
        create(NOBODY, ""),
        create(NOBODY, "x" * 201),
        create(NOBODY, "orphan", GUEST),
        create(NOBODY, "own parent", NOBODY),
        create("nonsense", "bad uuid"),
        create(NOBODY.upper().replace("-", ""), "other spelling"),
        ("DELETE", of(NOBODY)),
        ("GET", f"/resource_providers?in_tree={CHILD}"),
        ("GET", f"/resource_providers?in_tree={NOBODY}"),
        ("GET", "/resource_providers?in_tree=nonsense"),
        ("GET", "/resource_providers?name=host"),
        ("GET", f"/resource_providers?uuid={OTHER}"),
        ("GET", "/resource_providers"),
        ("PUT", of(ROOT), {"name": "renamed"}),
        ("PUT", of(ROOT), {"name": "store"}),
        ("PUT", of(NOBODY), {"name": "x"}),
        ("PUT", of(ROOT), {}),
        ("PUT", of(CHILD), {"name": "host_gpu", "parent_provider_uuid": OTHER}, "1.36"),
        ("PUT", of(CHILD), {"name": "host_gpu", "parent_provider_uuid": None}, "1.36"),
        ("PUT", of(OTHER), {"name": "store", "parent_provider_uuid": ROOT}, "1.36"),
        ("PUT", of(CHILD), {"name": "host_gpu", "parent_provider_uuid": OTHER}),
        ("PUT", of(ROOT), {"name": "renamed", "parent_provider_uuid": CHILD}),
        ("PUT", of(CHILD), {"name": "host_gpu", "parent_provider_uuid": None}),
        ("PUT", of(CHILD), {"name": "host_gpu", "parent_provider_uuid": NOBODY}),
        ("GET", "/resource_providers"),
        ("DELETE", of(ROOT)),
        ("DELETE", of(OTHER)),
        ("DELETE", of(ROOT)),
        ("DELETE", of(ROOT)),
        ("GET", of(ROOT)),
    ],
    "inventories move the generation, identical ones too": [
        *TREE,
        inventory(ROOT, 0, VCPU=4, MEMORY_MB={"total": 8, "reserved": 8}),
        inventory(ROOT, 0, VCPU=4),
        inventory(ROOT, 1, VCPU=4, MEMORY_MB={"total": 8, "reserved": 8}),
        inventory(ROOT, 2, VCPU={"total": 4, "allocation_ratio": 16}),
        inventory(ROOT, 3, VCPU=0),
        inventory(ROOT, 3, VCPU=-1),
        inventory(ROOT, 3, VCPU="4"),
        inventory(ROOT, 3, VCPU={"reserved": 1}),
        inventory(ROOT, 3, VCPU={"total": 4, "unheard_of": 1}),
        inventory(ROOT, 3, VCPU={"total": 4, "max_unit": 0}),
        inventory(ROOT, 3, VCPU={"total": 4, "reserved": 5}),
        inventory(ROOT, 3, VCPU={"total": 4, "reserved": -1}),
        inventory(ROOT, 3, VCPU=2**31),
        inventory(ROOT, 3, VCPU=1, CUSTOM_B=1, CUSTOM_A=1),
        inventory(ROOT, 3, VCPU=1, custom_lower=1),
        inventory(ROOT, 3, UNHEARD_OF=1),
        inventory(NOBODY, 0, VCPU=1),
        ("PUT", of(ROOT, "inventories"), {"inventories": {}}),
        ("PUT", "/resource_classes/CUSTOM_A"),
        ("PUT", "/resource_classes/CUSTOM_A"),
        ("PUT", "/resource_classes/custom_a"),
        ("PUT", "/resource_classes/VCPU"),
        ("PUT", "/resource_classes/UNHEARD_OF"),
        ("GET", "/resource_classes"),
        inventory(ROOT, 3, CUSTOM_A=1),
        ("DELETE", "/resource_classes/CUSTOM_A"),
        ("DELETE", "/resource_classes/CUSTOM_Z"),
        ("DELETE", "/resource_classes/VCPU"),
        *EVERYTHING,
        inventory(ROOT, 4),
        ("DELETE", "/resource_classes/CUSTOM_A"),
        ("GET", "/resource_classes"),
        *EVERYTHING,
    ],
    "traits move the generation when they change": [
        *TREE,
        traits(ROOT, 0, "HW_CPU_X86_VMX", "COMPUTE_NODE"),
        traits(ROOT, 1, "COMPUTE_NODE", "HW_CPU_X86_VMX"),
        traits(ROOT, 0, "COMPUTE_NODE"),
        traits(ROOT, 0, "CUSTOM_B"),
        traits(ROOT, 1, "CUSTOM_B", "COMPUTE_NODE", "HW_NOT_YET", "CUSTOM_A"),
        traits(ROOT, 1, "custom_lower"),
        traits(NOBODY, 0, "COMPUTE_NODE"),
        ("PUT", of(ROOT, "traits"), {"traits": []}),
        ("PUT", "/traits/CUSTOM_A"),
        ("PUT", "/traits/CUSTOM_A"),
        ("PUT", "/traits/custom_a"),
        ("PUT", "/traits/HW_NOT_YET"),
        traits(ROOT, 1, "CUSTOM_A", "CUSTOM_A"),
        traits(CHILD, 0, "CUSTOM_A", "COMPUTE_NODE"),
        ("GET", f"/resource_providers?in_tree={ROOT}&required=CUSTOM_A"),
        ("GET", f"/resource_providers?in_tree={ROOT}&required=CUSTOM_A,COMPUTE_NODE"),
        ("GET", f"/resource_providers?in_tree={ROOT}&required=CUSTOM_A,!COMPUTE_NODE"),
        ("GET", f"/resource_providers?in_tree={ROOT}&required=CUSTOM_Z"),
        traits(ROOT, 2),
        ("DELETE", "/traits/CUSTOM_A"),
        ("DELETE", "/traits/CUSTOM_Z"),
        ("DELETE", "/traits/COMPUTE_NODE"),
        traits(CHILD, 1),
        ("DELETE", "/traits/CUSTOM_A"),
        *EVERYTHING,
    ],
    "aggregates move the generation unless the microversion is old": [
        *TREE,
        aggregates(ROOT, 0, AGG1, AGG2),
        aggregates(ROOT, 1, AGG1, AGG2),
        aggregates(ROOT, 1, AGG1),
        aggregates(ROOT, 2, "nonsense"),
        aggregates(ROOT, 2, AGG1, AGG1),
        aggregates(NOBODY, 0, AGG1),
        ("PUT", of(ROOT, "aggregates"), [AGG2]),
        ("PUT", of(ROOT, "aggregates"), [AGG2], "1.18"),
        ("GET", of(ROOT, "aggregates"), None, "1.18"),
        aggregates(OTHER, 0, AGG2),
        traits(OTHER, 1, "MISC_SHARES_VIA_AGGREGATE"),
        ("GET", f"/resource_providers?member_of=in:{AGG1},{AGG2}"),
        (
            "GET",
            f"/resource_providers?member_of=in:{AGG1},{AGG2}&required=MISC_SHARES_VIA_AGGREGATE",
        ),
        ("GET", f"/resource_providers?member_of={AGG1}&required=MISC_SHARES_VIA_AGGREGATE"),
        ("GET", "/resource_providers?member_of=in:nonsense"),
        *EVERYTHING,
    ],
    "allocations move the generation when written, not when deleted": [
        *TREE,
        inventory(ROOT, 0, VCPU=4, MEMORY_MB=64),
        inventory(CHILD, 0, VGPU={"total": 4, "min_unit": 2, "step_size": 2}),
        allocate(1, root={"VCPU": 1}),
        allocate(None, root={"VCPU": 5}),
        allocate(None, root={"VGPU": 1}),
        allocate(None, root={"CUSTOM_NOT_THERE": 1}),
        allocate(None, child={"VGPU": 1}),
        allocate(None, child={"VGPU": 3}),
        # A consumer of its own: Placement keeps the record of it after this refusal.
        allocate(None, NOBODY, nobody={"VCPU": 1}),
        allocate(None, root={}),
        allocate(None, root={"VCPU": 0}),
        allocate(None, root={"VCPU": 1, "MEMORY_MB": 8}, child={"VGPU": 2}),
        *EVERYTHING,
        ("GET", f"/allocations/{GUEST}", None, "1.37"),
        allocate(None, root={"VCPU": 1}),
        allocate(1, root={"VCPU": 2}),
        ("GET", f"/allocations/{GUEST}"),
        allocate(None, GUEST2, root={"VCPU": 2}),
        allocate(None, "nonsense", root={"VCPU": 2}),
        *EVERYTHING,
        inventory(ROOT, 4, MEMORY_MB=64),
        inventory(ROOT, 4, VCPU=1),
        allocate(2, root={"VCPU": 3}),
        allocate(2, root={"VCPU": 1}),
        ("DELETE", of(ROOT)),
        ("DELETE", of(CHILD)),
        ("DELETE", f"/allocations/{GUEST2}"),
        ("DELETE", f"/allocations/{GUEST2}"),
        *EVERYTHING,
        allocate(3),
        *EVERYTHING,
        allocate(None, root={"VCPU": 1}),
        *EVERYTHING,
        ("DELETE", of(ROOT)),
        inventory(ROOT, 9),
        ("DELETE", f"/allocations/{GUEST}"),
        inventory(ROOT, 9),
        ("DELETE", of(ROOT)),
    ],
    "the reshaper moves everything or nothing": [
        *TREE,
        inventory(ROOT, 0, VCPU=4, VGPU=8),
        inventory(OTHER, 0, DISK_GB=10),
        allocate(None, root={"VCPU": 1, "VGPU": 2}),
        allocate(None, GUEST2, root={"VCPU": 1}),
        *EVERYTHING,
        reshape({}),
        reshape({ROOT: inventories(0, VCPU=4), CHILD: inventories(0, VGPU=8)}),
        reshape({ROOT: inventories(3, VCPU=4), CHILD: inventories(5, VGPU=8)}),
        reshape({ROOT: inventories(3, VCPU=4), NOBODY: inventories(0, VGPU=8)}),
        reshape({ROOT: inventories(3, VCPU=4), CHILD: inventories(0, CUSTOM_NOT_THERE=8)}),
        reshape({ROOT: inventories(3, VCPU=4), CHILD: inventories(0, VGPU=8)}),
        reshape(
            {ROOT: inventories(3, VCPU=4), CHILD: inventories(0, VGPU=1)},
            {GUEST: uses(1, root={"VCPU": 1}, child={"VGPU": 2})},
        ),
        reshape(
            {ROOT: inventories(3, VCPU=4), CHILD: inventories(0, VGPU=8)},
            {GUEST: uses(4, root={"VCPU": 1}, child={"VGPU": 2})},
        ),
        reshape({ROOT: inventories(3, VCPU=0), CHILD: inventories(0, VGPU=8)}),
        *EVERYTHING,
        reshape(
            {ROOT: inventories(3, VCPU=4), CHILD: inventories(0, VGPU=8)},
            {GUEST: uses(1, root={"VCPU": 1}, child={"VGPU": 2})},
        ),
        *EVERYTHING,
        reshape({OTHER: inventories(1), CHILD: inventories(3, VGPU={"total": 1, "reserved": 5})}),
        *EVERYTHING,
        reshape({CHILD: inventories(5, VGPU=3)}, {GUEST: uses(2)}),
        *EVERYTHING,
    ],
    "a consumer's type stays where it is not written": [
        *TREE,
        inventory(ROOT, 0, VCPU=8),
        ("PUT", f"/allocations/{GUEST}", typeless(None, root={"VCPU": 1}), "1.28"),
        ("PUT", f"/allocations/{GUEST2}", typed(None, "MIGRATION", root={"VCPU": 1}), "1.38"),
        *(("GET", f"/allocations/{guest}", None, "1.28") for guest in (GUEST, GUEST2)),
        *(("GET", f"/allocations/{guest}", None, "1.38") for guest in (GUEST, GUEST2)),
        *EVERYTHING,
        *(
            ("PUT", f"/allocations/{GUEST}", body, version)
            for body in (
                typeless(1, root={"VCPU": 2}),
                *(typed(1, text, root={"VCPU": 2}) for text in ("unknown", "", "A" * 256, None)),
                {**typed(1, "A", root={"VCPU": 2}), "project_id": ""},
                {**typed(1, "A", root={"VCPU": 2}), "user_id": "u" * 256},
                {**typed(1, "A", root={"VCPU": 2}), "user_id": None},
                {**typed(1, "A", root={"VCPU": 2}), "consumer_generation": "1"},
            )
            for version in ("1.39", "1.37")
            if not (version == "1.37" and "consumer_type" not in body)
        ),
        reshape({ROOT: inventories(3, VCPU=7)}, {GUEST: typed(1, "unknown", root={"VCPU": 3})}),
        reshape({ROOT: inventories(3, VCPU=7)}, {GUEST: typeless(1, root={"VCPU": 3})}),
        reshape({ROOT: inventories(3, VCPU=7)}, {GUEST2: typed(1, "A", root={"VCPU": 3})}, "1.37"),
        *EVERYTHING,
        reshape(
            {ROOT: inventories(3, VCPU=7)},
            {GUEST: typeless(1, root={"VCPU": 3}), GUEST2: typeless(1, root={"VCPU": 2})},
            "1.30",
        ),
        *EVERYTHING,
        ("PUT", f"/allocations/{GUEST}", typeless(2, root={"VCPU": 1}), "1.37"),
        ("PUT", f"/allocations/{GUEST2}", typeless(2, root={"VCPU": 1}), "1.37"),
        *EVERYTHING,
        ("PUT", f"/allocations/{GUEST}", typed(3, "INSTANCE", root={"VCPU": 1})),
        *EVERYTHING,
    ],
    "a client that asks for too much": [("GET", "/resource_providers", None, "1.40")],
}


@pytest.mark.parametrize("name", SCENARIOS)
def test_fake_answers_as_the_real_placement_does(name: str, placement: RealPlacement) -> None:
    fake = FakePlacement()
    for number, step in enumerate(SCENARIOS[name]):
        real_answer = answer(placement.request, step)
        fake_answer = answer(fake.answer, step)
        assert fake_answer == real_answer, f"step {number}: {step[:3]}"


def test_a_stranger_does_the_same_to_both(placement: RealPlacement) -> None:
    fake = FakePlacement()
    seen = [list(stranger_story(api)) for api in (fake, placement)]
    assert seen[0] == seen[1]
    assert fake.requests == [], "a stranger's requests are not our code's"


def test_every_kind_of_answer_is_compared() -> None:
    outcomes = []
    for steps in SCENARIOS.values():
        fake = FakePlacement()
        outcomes += [answer(fake.answer, step) for step in steps]
    kinds = {outcome for outcome in outcomes if isinstance(outcome, type)}
    assert kinds >= {Conflict, InUse, NameTaken, NotFound, Rejected, TooOld}
    assert (UnknownNames, frozenset({"CUSTOM_A", "CUSTOM_B", "HW_NOT_YET"})) in outcomes


@pytest.mark.parametrize("name", SCENARIOS)
def test_a_refused_write_changes_nothing_in_the_fake(name: str) -> None:
    fake = FakePlacement()
    for step in SCENARIOS[name]:
        before = copy.deepcopy((fake.store.providers, fake.store.consumers))
        refused = not isinstance(answer(fake.answer, step), dict)
        if refused or step[0] == "GET":
            assert (fake.store.providers, fake.store.consumers) == before, step


def test_a_failure_meets_one_request_and_may_come_after_the_write() -> None:
    fake = FakePlacement()
    fake.stranger.create_provider("host", ROOT)
    fake.fail_next("PUT", "/aggregates$", Unreachable("lost"), after=True)
    fake.fail_next("PUT", "/traits$", Conflict("raced"))
    for step, error in (
        (aggregates(ROOT, 0, AGG1), Unreachable),
        (traits(ROOT, 1, "COMPUTE_NODE"), Conflict),
    ):
        with pytest.raises(error):
            fake.request(step[0], step[1], json=step[2])
    step = traits(ROOT, 1, "COMPUTE_NODE")
    assert fake.request(step[0], step[1], json=step[2])["resource_provider_generation"] == 2
    parts = ("aggregates", "traits", "traits")
    assert [(r.method, r.path) for r in fake.writes] == [("PUT", of(ROOT, part)) for part in parts]
    assert not fake.failures


def test_an_older_fake_refuses_what_needs_a_newer_one() -> None:
    fake = FakePlacement(microversion="1.36")
    with pytest.raises(TooOld):
        fake.request("PUT", of(ROOT), json={"name": "x"}, needs="1.37")
    assert fake.requests == []


def stranger_story(api: FakePlacement | RealPlacement) -> Iterable[Any]:
    stranger = api.stranger
    stranger.create_provider("host", ROOT)
    stranger.create_child(ROOT, "thing", CHILD)
    stranger.add_trait(ROOT, "CUSTOM_GOLD")
    stranger.add_trait(ROOT, "CUSTOM_SILVER")
    stranger.remove_trait(ROOT, "CUSTOM_GOLD")
    yield stranger.traits(ROOT)
    stranger.set_aggregates(ROOT, {AGG1})
    yield comparable(stranger.provider(ROOT))
    stranger.set_aggregates(ROOT, {AGG2}, old_microversion=True)
    yield comparable(stranger.provider(ROOT)), stranger.aggregates(ROOT)
    stranger.set_inventory(CHILD, {"CUSTOM_THING": {"total": 2}})
    stranger.put_allocation({CHILD: {"CUSTOM_THING": 1}}, GUEST)
    stranger.put_allocation({CHILD: {"CUSTOM_THING": 2}}, GUEST)
    yield comparable(stranger.allocation(GUEST)), stranger.inventory(CHILD)
    stranger.delete_allocation(GUEST)
    stranger.delete_provider(CHILD)
    stranger.rename(ROOT, "other")
    yield comparable(stranger.provider(ROOT))


def answer(request: Callable[..., dict[str, Any]], step: Step) -> Any:
    method, path, json, microversion = (*step, None, None)[:4]
    try:
        return comparable(request(method, path, json=json, microversion=microversion))
    except UnknownNames as err:
        return UnknownNames, err.names
    except PlacementError as err:
        return type(err)


def comparable(value: Any) -> Any:
    """Without links, and with lists in an order: Placement's is the database's."""
    if isinstance(value, dict):
        return {key: comparable(item) for key, item in value.items() if key != "links"}
    if isinstance(value, list):
        return sorted((comparable(item) for item in value), key=repr)
    return value
