"""Drivers that watch their hypervisor: one that can't do so does not end the start."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from agent.loop import Loop
from agent.switching.hypervisor import Hypervisor
from drivers.api import ComputeDriver, DriverContext
from drivers.loader import LoadedDriver


class Watching(ComputeDriver):
    def __init__(self, error: BaseException | None = None) -> None:
        super().__init__(DriverContext("host1", Path("/nonexistent")))
        self.error = error
        self.tell: Callable[[str | None], None] | None = None

    def get_available_nodes(self):
        return ["host1"]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        """Nothing."""

    def watch(self, tell: Callable[[str | None], None]) -> None:
        if self.error is not None:
            raise self.error
        self.tell = tell


@pytest.mark.parametrize("error", [RuntimeError("no event loop"), SystemExit(3)])
def test_a_watch_that_raises_is_logged_and_the_other_drivers_are_watched(
    error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good, loop = Watching(error), Watching(), Loop(lambda: None)
    loaded = [LoadedDriver.from_driver("bad", bad), LoadedDriver.from_driver("good", good)]
    status: Any = SimpleNamespace(hypervisor_lost=lambda why: None)
    hypervisor = Hypervisor(status, loop)
    with caplog.at_level(logging.WARNING):
        hypervisor.watch(loaded)
    assert "Driver bad can't watch its hypervisor" in caplog.text
    assert str(error) in caplog.text
    assert good.tell is not None
    good.tell("it is gone")
    loop.run_jobs()
    assert hypervisor.lost == {"good": "it is gone"}


def test_a_driver_that_opens_later_is_watched_from_then_on() -> None:
    late = Watching()
    loaded = LoadedDriver.from_driver("late", late)
    loaded.opening.failed = RuntimeError("not yet")
    Hypervisor(SimpleNamespace(), Loop(lambda: None)).watch([loaded])  # type: ignore[arg-type]
    assert late.tell is None and loaded.opening.then is not None
    loaded.opening.then()
    assert late.tell is not None
