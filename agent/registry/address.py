"""Where an agent runs, so that two agents with one host name are told apart."""

from __future__ import annotations

import socket
from pathlib import Path

LONGEST = 255
BOOT_ID = "/proc/sys/kernel/random/boot_id"


def here(state_path: Path, *, root: Path = Path("/")) -> str:
    """Machine, its boot, and the agent's directory: the same after a restart of the agent.

    The boot tells machines apart that were cloned, name, machine id and all.
    """
    try:
        boot = (root / BOOT_ID.lstrip("/")).read_text(encoding="ascii").strip()
    except OSError:
        boot = "?"
    return f"{socket.gethostname()} (boot {boot}, {state_path.absolute()})"[:LONGEST]
