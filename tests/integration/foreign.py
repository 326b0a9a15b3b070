"""A tree read from Placement by name, and things in it that are none of the agent's."""

from typing import Any
from uuid import uuid4

from tests.servers.placement import RealPlacement

FOREIGN_AGGREGATE = str(uuid4())

Tree = dict[str, Any]


def tree_of(placement: RealPlacement, root: str) -> Tree:
    """All of it, by name; only what differs between two runs by right is left out."""
    members = placement.providers(f"?in_tree={root}")
    names = {member["uuid"]: member["name"] for member in members}
    assert len(set(names.values())) == len(members), "a name is there twice"
    stranger = placement.stranger
    return {
        member["name"]: {
            "parent": names.get(member["parent_provider_uuid"]),
            "inventory": stranger.inventory(member["uuid"]),
            "traits": stranger.traits(member["uuid"]),
            "aggregates": stranger.aggregates(member["uuid"]),
        }
        for member in members
    }


def with_a_stranger(placement: RealPlacement, root: str) -> None:
    """A trait, an aggregate and a child with inventory that are none of the agent's."""
    stranger = placement.stranger
    stranger.create_provider("testhost", root)
    stranger.add_trait(root, "CUSTOM_FOREIGN")
    stranger.set_aggregates(root, {FOREIGN_AGGREGATE})
    child = stranger.create_child(root, "foreign-child")
    stranger.set_inventory(child, {"CUSTOM_FOREIGN_THING": {"total": 3}})
    stranger.add_trait(child, "CUSTOM_FOREIGN")


def assert_stranger_untouched(tree: Tree) -> None:
    assert "CUSTOM_FOREIGN" in tree["testhost"]["traits"]
    assert FOREIGN_AGGREGATE in tree["testhost"]["aggregates"]
    child = tree["foreign-child"]
    assert child["parent"] == "testhost"
    assert child["inventory"]["CUSTOM_FOREIGN_THING"]["total"] == 3
    assert child["traits"] == {"CUSTOM_FOREIGN"}
    assert not child["aggregates"]
