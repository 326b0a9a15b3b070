"""Extras of compute-agent: libraries that only some programs and drivers need."""

import json
import shlex
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

DISTRIBUTION = "compute-agent"


def missing(extra: str, *modules: str) -> str:
    """Return which top-level modules of an extra are not installed, and the command that installs
    them; empty if none is missing.
    """
    lacking = [name for name in modules if find_spec(name) is None]
    return f"{', '.join(lacking)} is not installed; run: {_command(extra)}" if lacking else ""


def _command(extra: str) -> str:
    """Return pip's command, with the checkout or wheel from which compute-agent was installed."""
    # A checkout that was built has metadata of its own beside those of its installation.
    installed = metadata.distributions(name=DISTRIBUTION)
    origins = (each.read_text("direct_url.json") for each in installed)
    origin = json.loads(next(filter(None, origins), "{}"))
    place = urlsplit(origin.get("url", ""))
    is_file = place.scheme == "file" and Path(unquote(place.path)).exists()
    source = unquote(place.path) if is_file else DISTRIBUTION
    editable = ["-e"] if is_file and origin.get("dir_info", {}).get("editable") else []
    return shlex.join([sys.executable, "-m", "pip", "install", *editable, f"{source}[{extra}]"])
