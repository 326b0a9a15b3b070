"""Reading a tree to show it, on Placement in memory."""

import pytest

from compute_registry.observed_placement import read_tree
from computectl.reading.trees import find_provider
from computectl.shared.command_session import ReadOnly
from computectl.shared.errors import CommandError
from reportclient.model import SHARES_VIA_AGGREGATE
from tests.stranger import FakePlacement
from tests.unit.cli.trees import AGGREGATE


@pytest.fixture
def root(fake_placement: FakePlacement) -> str:
    stranger = fake_placement.stranger
    root = stranger.create_provider("host 1&2")
    stranger.set_inventory(root, {"VCPU": {"total": 8}})
    stranger.set_aggregates(root, {AGGREGATE})
    child = stranger.create_child(root, "child")
    stranger.set_inventory(child, {"VGPU": {"total": 4}})
    nfs = stranger.create_provider("nfs")
    stranger.set_inventory(nfs, {"DISK_GB": {"total": 100}})
    stranger.set_aggregates(nfs, {AGGREGATE})
    stranger.add_trait(nfs, SHARES_VIA_AGGREGATE)
    stranger.put_allocation({root: {"VCPU": 3}, child: {"VGPU": 1}, nfs: {"DISK_GB": 10}})
    stranger.put_allocation({root: {"VCPU": 2}})
    return root


def test_an_empty_name_is_that_of_no_provider(fake_placement: FakePlacement, root: str) -> None:
    """Placement lists all for it: whose variable is not set would get another host's."""
    assert root
    with pytest.raises(CommandError, match="name or UUID ''; names have to be given in full"):
        find_provider("", fake_placement)


def test_use_and_consumers_are_those_of_the_allocations(
    fake_placement: FakePlacement, root: str
) -> None:
    seen = read_tree(root, fake_placement)
    names = {p.uuid: p.name for p in seen.snapshot.providers.values()}
    used = {names[uuid]: dict(amounts) for uuid, amounts in seen.usage.usages.items()}
    assert used == {"host 1&2": {"VCPU": 5}, "child": {"VGPU": 1}, "nfs": {"DISK_GB": 10}}
    assert {names[uuid]: n for uuid, n in seen.usage.consumers.items() if n} == {
        "host 1&2": 2,
        "child": 1,
    }


def test_no_such_root_is_nothing(fake_placement: FakePlacement) -> None:
    assert read_tree(AGGREGATE, fake_placement) is None


def test_a_provider_is_found_by_its_name_or_its_uuid_in_any_spelling(
    fake_placement: FakePlacement, root: str
) -> None:
    for text in ("host 1&2", root.upper().replace("-", "")):
        assert find_provider(text, fake_placement)["uuid"] == root
    named_like_a_uuid = fake_placement.stranger.create_provider(AGGREGATE)
    assert find_provider(AGGREGATE, fake_placement)["uuid"] == named_like_a_uuid
    with pytest.raises(CommandError, match="name or UUID nobody"):
        find_provider("nobody", fake_placement)


@pytest.mark.parametrize("method", ["PUT", "POST", "DELETE", "PATCH"])
def test_a_command_cannot_write(fake_placement: FakePlacement, method: str) -> None:
    with pytest.raises(PermissionError):
        ReadOnly(fake_placement).request(method, "/traits/CUSTOM_X")
    assert fake_placement.requests == []
