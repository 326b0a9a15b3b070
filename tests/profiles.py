"""Hypothesis profiles: ``ci`` is the same every time; ``HYPOTHESIS_PROFILE=thorough`` looks wider,
``fast`` (``tools/test.sh --fast``) less wide."""

import os

from hypothesis import HealthCheck, settings

SLOW_START = [HealthCheck.too_slow]
WIDER = 30
"""So many times as many examples are looked at where there is time."""

NAME = os.environ.get("HYPOTHESIS_PROFILE", "ci")

settings.register_profile(
    "ci", derandomize=True, deadline=None, max_examples=50, suppress_health_check=SLOW_START
)
settings.register_profile(
    "thorough", deadline=None, max_examples=100 * WIDER, suppress_health_check=SLOW_START
)
settings.register_profile(
    "fast", derandomize=True, deadline=None, max_examples=25, suppress_health_check=SLOW_START
)


def examples(in_ci: int) -> int:
    """For a test with a number of its own: as many in CI, more where there is time."""
    return {"ci": in_ci, "fast": min(in_ci, 25)}.get(NAME, in_ci * WIDER)
