"""The console script of compute-registry, whose libraries are an extra."""

import sys

from drivers.extras import missing

UNUSABLE = 2


def main() -> None:
    """Run compute-registry, or exit with 2 and the command that installs what it needs."""
    try:
        from compute_registry.service import main as run  # noqa: PLC0415  may not be installed
    except ModuleNotFoundError as err:
        text = missing("registry", (err.name or "").partition(".")[0])
        if not text:
            raise
        sys.stderr.write(f"compute-registry: {text}\n")
        sys.exit(UNUSABLE)
    run()
