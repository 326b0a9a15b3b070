"""Fixtures and helpers of the client's tests."""

import pytest

from reportclient.client import Client
from tests.contract.world import World, host
from tests.servers.placement import RealPlacement
from tests.stranger import FakePlacement


@pytest.fixture
def world(any_placement: FakePlacement | RealPlacement) -> World:
    """A Placement without providers, the fake and then a real one."""
    return World.of(any_placement)


@pytest.fixture
def nova(world: World) -> World:
    """A root with children that somebody else has made and goes on to write to."""
    world.settled(host())
    return world


@pytest.fixture
def client(nova: World) -> Client:
    return Client(nova.api)
