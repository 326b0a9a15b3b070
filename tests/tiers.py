"""What takes too long for every run: ``tools/test.sh --faults``."""

from __future__ import annotations

import os

import pytest

FAULTS = "COMPUTE_AGENT_TEST_FAULTS" in os.environ
"""Whether this run is the long one."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is marked ``faults``, unless a smaller form of it runs always."""
    for item in items:
        mark = item.get_closest_marker("faults")
        if mark and not FAULTS and not mark.kwargs.get("always"):
            item.add_marker(pytest.mark.skip(reason="only tools/test.sh --faults runs this"))
