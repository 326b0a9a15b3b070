"""Which version this is, as the package was installed."""

from functools import cache
from importlib import metadata

DISTRIBUTION = "compute-agent"


@cache
def version() -> str:
    """``compute-agent``'s version, such as ``0.1.0``."""
    return metadata.version(DISTRIBUTION)
