"""The host that answered here last, in ``state_path``: a restart does not make another one ours."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

from drivers.libvirt.host_identity import HostIdentity

LOG = logging.getLogger(__name__)

FILE_NAME = "libvirt-host.json"


class RememberedHost:
    """``{"name": …, "uuid": …}``; lost or damaged, it is as if nobody had answered yet."""

    def __init__(self, state_path: Path) -> None:
        self.path = state_path / FILE_NAME
        self._told = False

    def read(self) -> HostIdentity | None:
        """``None``: nothing is known of an earlier run."""
        try:
            found = json.loads(self.path.read_bytes())
            return HostIdentity(str(found["name"]), str(found["uuid"]))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, LookupError, TypeError, RecursionError) as err:
            self._warn("can't be read", err)
            return None

    def write(self, host: HostIdentity) -> None:
        """Unless it says so already; one without a UUID proves nothing later."""
        if host.uuid is None or host == self.read():
            return
        scratch = self.path.with_suffix(".new")
        try:
            scratch.unlink(missing_ok=True)
            with scratch.open("x") as file:
                json.dump({"name": host.name, "uuid": host.uuid}, file)
                file.flush()
                os.fsync(file.fileno())
            scratch.replace(self.path)
        except OSError as err:
            self._warn("can't be written", err)

    def _warn(self, what: str, err: Exception) -> None:
        """Once: another host would pass as this one after a restart, and nothing worse."""
        if not self._told:
            self._told = True
            LOG.warning("%s %s: %s", self.path, what, err)
