"""Chooses the Hypothesis profile for all properties."""

from __future__ import annotations

from hypothesis import settings

from tests.property.profiles import NAME

settings.load_profile(NAME)
