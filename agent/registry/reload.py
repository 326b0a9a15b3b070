"""SIGHUP to compute-registry: options that may change while it serves, such as ``debug``.

oslo.config says which options changed, and which changed in the file and need a restart.
"""

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from agent.registry import opts
from agent.told.systemd import Systemd

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Reload:
    """``args`` are the arguments that the process was started with."""

    conf: Any
    args: Sequence[str]
    systemd: Systemd
    _asked: threading.Event = field(default_factory=threading.Event)

    def ask(self) -> None:
        """Have it done soon.  For a signal handler."""
        self._asked.set()

    def done_if_asked(self) -> None:
        """Read the files again; what can't be used changes nothing."""
        if not self._asked.is_set():
            return
        self._asked.clear()
        self.systemd.reloading()
        try:
            opts.read_again(self.conf, self.args)
        except opts.RegistryConfigError as err:
            LOG.warning("The configuration could not be read again, nothing is changed: %s", err)
        except Exception:
            LOG.exception("The configuration could not be read again")
        self.systemd.reloaded()
