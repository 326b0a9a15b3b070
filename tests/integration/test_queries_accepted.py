"""A query that can be read means the same to a real Placement as its reading."""

import random
from collections.abc import Iterator
from urllib.parse import quote

import pytest

from reportclient import errors
from reportclient.candidates import BadQuery, read_request, to_query_string
from tests.integration.fleet import uuid
from tests.servers.placement import RealPlacement

AGGREGATE, OTHER = uuid(1), uuid(2)
HAS, HAS_NOT = "HW_CPU_X86_AVX2", "HW_CPU_X86_AVX"
RESOURCES = ("VCPU:1", "VCPU:2,MEMORY_MB:64", " VCPU:1", "VCPU:+1", "VCPU:0", "VCPU:1,VCPU:2", "")
TRAITS = (
    *(HAS, f"!{HAS_NOT}", f"{HAS},!{HAS_NOT}", f"in:{HAS},{HAS_NOT}", f"in:{HAS}", f"!{HAS}"),
    *(f"in:{HAS},!{HAS_NOT}", "in:", "", "!", f"{HAS},", f"{HAS}, {HAS}", f"!in:{HAS}"),
)
AGGREGATES = (
    *(AGGREGATE, f"in:{AGGREGATE},{OTHER}", f"!{OTHER}", f"!in:{OTHER},{OTHER}"),
    *(f"{AGGREGATE},{OTHER}", "", "in:", "!", f"in:!{AGGREGATE}", "no-uuid"),
)
SUFFIXES = ("", "", "1", "2", "_A", "A", "-b", "0", "01")


def query(pick: random.Random) -> str:
    """One that is odd in places, and often can be asked."""
    suffixes = pick.sample(sorted(set(SUFFIXES)), pick.choice([1, 1, 2, 3]))
    found: list[tuple[str, str]] = []
    for suffix in suffixes:
        if pick.random() < 0.9:
            found.append((f"resources{suffix}", pick.choice(RESOURCES[: pick.choice([2, 4, 7])])))
        for name, values in (("required", TRAITS), ("member_of", AGGREGATES)):
            for _ in range(pick.choice([0, 0, 1, 2])):
                found.append((f"{name}{suffix}", pick.choice(values[: pick.choice([4, 5, 13])])))
    if len(suffixes) > 1 or pick.random() < 0.3:
        found.append(("group_policy", pick.choice(["none", "none", "isolate", "", "x"])))
    if pick.random() < 0.2:
        found.append(("root_required", pick.choice([HAS, f"!{HAS_NOT}", f"in:{HAS}", ""])))
    if pick.random() < 0.3:
        found.append(("same_subtree", ",".join(filter(None, suffixes))))
    if pick.random() < 0.1:
        found.append(("limit", pick.choice(["1", "1000", "0", "-1", "x", ""])))
    return "&".join(f"{name}={quote(value)}" for name, value in found)


@pytest.fixture(scope="module")
def placement(placement_server: RealPlacement) -> Iterator[RealPlacement]:
    placement_server.start()
    placement_server.empty()
    stranger = placement_server.stranger
    made = stranger.create_provider("host")
    stranger.set_inventory(made, {"VCPU": {"total": 8}, "MEMORY_MB": {"total": 512}})
    stranger.add_trait(made, HAS)
    stranger.set_aggregates(made, [AGGREGATE])
    yield placement_server
    placement_server.empty()


def test_odd_queries_are_understood_as_placement_understands_them(placement) -> None:
    def count(text: str) -> int | None:
        try:
            path = f"/allocation_candidates?{text}"
            return len(placement.request("GET", path)["allocation_requests"])
        except (errors.Rejected, errors.UnknownNames):
            return None

    pick = random.Random(20)
    understood = refused = 0
    for text in (query(pick) for _ in range(250)):
        try:
            ours = to_query_string(read_request(text))
        except BadQuery:
            refused += 1
            continue
        assert count(text) in (count(ours), None), (text, ours)
        understood += count(ours) is not None
    assert understood > 40 and refused > 40
