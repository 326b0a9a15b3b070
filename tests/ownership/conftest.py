"""Fixtures of the ownership tests."""

from __future__ import annotations

import types

import pytest
import tenacity.nap


@pytest.fixture(autouse=True)
def without_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody sleeps between two tries of a write."""
    monkeypatch.setattr(tenacity.nap, "time", types.SimpleNamespace(sleep=lambda seconds: None))
