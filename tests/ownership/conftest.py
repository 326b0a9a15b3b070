"""Placement in memory, for all tests of this folder and below."""

import pytest

from reportclient.testing.fake_placement import FakePlacement


@pytest.fixture
def placement() -> FakePlacement:
    return FakePlacement()
