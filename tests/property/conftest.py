"""Hypothesis profiles: ``ci`` is the same every time; ``HYPOTHESIS_PROFILE=thorough`` looks wider."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

SLOW_START = [HealthCheck.too_slow]

settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=100, suppress_health_check=SLOW_START
)
settings.register_profile(
    "thorough", deadline=None, max_examples=3000, suppress_health_check=SLOW_START
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))
