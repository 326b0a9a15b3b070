"""Which files and functions of ours one period of an agent passes: ``python -m tests.unit.walk``.

The agent is that of ``tests/agents.py`` with one driver, its state on disk, and a Placement in memory.
"""

from __future__ import annotations

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

    @property
    def files(self) -> list[str]:
        """Files by their first call."""
        return list(dict.fromkeys(file for file, _ in self.functions))

    def __str__(self) -> str:
        return f"{len(self.files)} files and {len(self.functions)} functions"

    def drawn(self) -> str:
        """A line for each run of files in one folder."""
        lines: list[tuple[str, list[str]]] = []
        for file in self.files:
            folder, _, name = file.removesuffix(".py").rpartition("/")
            if not lines or lines[-1][0] != folder:
                lines.append((folder, []))
            lines[-1][1].append(name)
        return "\n".join(f"    {folder:22} {', '.join(names)}" for folder, names in lines)


def walk(action: Callable[[], object]) -> Walk:
    """Call it, and note each function of ours that is called meanwhile, in this thread."""
    seen: dict[tuple[str, str], None] = {}

    def note(frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        path = Path(code.co_filename)
        if event != "call" or code.co_name.startswith("<") or not path.is_relative_to(REPOSITORY):
            return
        file = path.relative_to(REPOSITORY).as_posix()
        if file.startswith(PACKAGES) and not file.startswith(NOT_OURS):
            seen.setdefault((file, code.co_qualname))

    sys.setprofile(note)
    try:
        action()
    finally:
        sys.setprofile(None)
    return Walk(tuple(seen))


def walks() -> tuple[Walk, Walk]:
    """Of a quiet period, and of one in which one inventory has changed."""
    with tempfile.TemporaryDirectory() as state:
        driver = Small(inventory(8))
        agent = Agent(FakePlacement(), driver, state=Path(state))
        agent.settle()
        quiet = walk(lambda: agent.period(60.0))
        driver.body = inventory(9)
        return quiet, walk(lambda: agent.period(60.0))


if __name__ == "__main__":
    quiet_walk, changed_walk = walks()
    print(f"quiet: {quiet_walk}; one inventory: {changed_walk}\n\n{changed_walk.drawn()}")
