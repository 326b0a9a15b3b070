"""Fixtures and helpers of the client's tests."""

import pytest

from reportclient.testing.fake_placement import FakePlacement
from tests.contract.world import World
from tests.servers.placement import RealPlacement


@pytest.fixture
def world(any_placement: FakePlacement | RealPlacement) -> World:
    """A Placement without providers, the fake and then a real one."""
    return World.of(any_placement)
