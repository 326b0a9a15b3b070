"""SIGHUP: provider files, and the options that may change while the agent runs.

oslo.config says which options changed, and which changed in the file and need a restart.
A configuration that can't be used changes nothing.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent import config
from agent.loop import Loop
from agent.period.rules import Rules
from agent.period.tracker import Tracker
from agent.reporting.status_file import StatusFile
from agent.service import Service
from agent.switching.switching import Switching
from reportclient.http import update_timeout

LOG = logging.getLogger(__name__)

FOLLOWED = ("verify_every", "audit_every", "period", "reshape_when_running", "remove_after")
"""Rules whose options are mutable."""


@dataclass(slots=True)
class Reload:
    """``settings`` are those in use; ``args`` the arguments that the agent was started with."""

    conf: Any
    args: Sequence[str]
    service: Service
    loop: Loop
    status_file: StatusFile
    settings: config.Settings
    adapter: Any
    """Placement's."""
    switching: Switching

    def ask(self) -> None:
        """Have it done between two periods, and a period after it.  For a signal handler."""
        reloaded = self.service.reloading()
        self.loop.post(self._read).add_done_callback(lambda _: reloaded())
        self.loop.refresh()

    def _read(self) -> None:
        for what, read in (
            ("The configuration", self._read_configuration),
            ("The set of provider files", self.service.nodes.additions.read),
        ):
            try:
                read()
            except config.ConfigError as err:
                LOG.warning("%s was not reloaded, the previous one stays in use: %s", what, err)
            except Exception:
                LOG.exception("%s was not reloaded", what)

    def _read_configuration(self) -> None:
        config.read_again(self.conf, self.args)
        now = config.settings(self.conf)
        if now.interval != self.settings.interval:
            self.loop.every(now.interval)
            self.status_file.interval = now.interval
        self._follow(now.rules, self.settings.rules)
        for loaded in self.service.nodes.drivers:
            loaded.calls.within = float(self.conf.compute.driver_timeout)
        if (now.registry, now.interval) != (self.settings.registry, self.settings.interval):
            self.switching.follow(now)
        update_timeout(self.adapter, self.conf)
        self.settings = now

    def _follow(self, rules: Rules, before: Rules) -> None:
        """From the next period on; what a tracker has settled for by itself stays."""
        new = {name: getattr(rules, name) for name in FOLLOWED}
        times = (rules.verify_every, rules.audit_every) != (before.verify_every, before.audit_every)
        nodes = self.service.nodes
        nodes.rules = replace(nodes.rules, **new)
        trackers: list[Tracker] = [*nodes.trackers.values(), *nodes.before.values()]
        for one in trackers:
            one.rules = replace(one.rules, **new)
            one.root.times = one.rules
            if times:  # within an interval: other hosts are told at the same moment
                one.root.schedule.reset(self.service.clock(), one.root.times)
