"""Reports a hypervisor's resources to Placement; the daemon is :mod:`agent.main`."""

from functools import cache
from importlib import metadata

DISTRIBUTION = "compute-agent"


@cache
def version() -> str:
    """Return ``compute-agent``'s version, such as ``0.1.0``."""
    return metadata.version(DISTRIBUTION)
