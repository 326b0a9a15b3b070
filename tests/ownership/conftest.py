"""Placement in memory, for all tests of this folder."""

import pytest

from reportclient.testing.fake_placement import FakePlacement


@pytest.fixture
def placement() -> FakePlacement:
    return FakePlacement()
