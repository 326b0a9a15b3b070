"""Placement in memory, for all tests of this folder and below."""

import pytest

from tests.stranger import FakePlacement


@pytest.fixture
def placement() -> FakePlacement:
    return FakePlacement()
