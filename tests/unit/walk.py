"""Which files and functions of ours a period, or a switch, passes: ``python -m tests.unit.walk``.

The agent is that of ``tests/agents.py`` with one driver, its state on disk, and a Placement in memory.
"""

import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from tests.agents import Agent, Small, inventory
from tests.stranger import FakePlacement

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGES = ("agent", "drivers", "reportclient")
NOT_OURS = ("reportclient/testing/",)


@dataclass(frozen=True)
class Walk:
    """Functions that were called, as file and qualified name, by their first call."""

    functions: tuple[tuple[str, str], ...]

    def __str__(self) -> str:
        return f"{len(self.by_file())} files and {len(self.functions)} functions"

    def by_file(self) -> dict[str, list[str]]:
        """Names by file, and files by their first call."""
        files: dict[str, list[str]] = {}
        for file, name in self.functions:
            files.setdefault(file, []).append(name)
        return files


def walk(action: Callable[[], object]) -> Walk:
    """Call it, and note each function of ours that is called meanwhile, in this thread."""
    seen: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if event != "call" or code.co_name.startswith("<") or not path.is_relative_to(REPOSITORY):
            return
        file = path.relative_to(REPOSITORY).as_posix()
        caller = "" if frame.f_back is None else frame.f_back.f_code.co_filename
        by_placement = any(each in caller for each in NOT_OURS)
        if file.startswith(PACKAGES) and not file.startswith(NOT_OURS) and not by_placement:
            seen.setdefault((file, code.co_qualname))

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return Walk(tuple(seen))


def walks() -> tuple[Walk, Walk, Walk]:
    """Of a quiet period, of one in which one inventory has changed, and of a switch of a root."""
    with tempfile.TemporaryDirectory() as state:
        driver = Small(inventory(8))
        agent = Agent(FakePlacement(), driver, state=Path(state)).settle()
        quiet = walk(lambda: agent.period(60.0))
        driver.body = inventory(9)
        changed = walk(lambda: agent.period(60.0))
        (tracker,) = agent.nodes.trackers.values()
        return quiet, changed, walk(lambda: tracker.switch(agent.now, disabled=True))


if __name__ == "__main__":
    quiet_walk, *others = walks()
    print(f"quiet: {quiet_walk}")
    for title, one in zip(("one inventory", "a switch"), others, strict=True):
        print(f"\n{title}: {one}\n")
        for path, names in one.by_file().items():
            print(f"    {path:40} {', '.join(names)}")
