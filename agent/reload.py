"""SIGHUP: reload the provider files and the mutable options.

oslo.config logs the options that changed, and those that changed in the file and need a restart.
An invalid configuration changes nothing.
"""

import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agent import config, opts
from agent.loop import Loop
from agent.period.tracker import Tracker
from agent.placement import update_timeout
from agent.reporting.status import StatusFile
from agent.service import Service
from agent.switching.switching import Switching

LOG = logging.getLogger("compute_agent.service")


@dataclass(slots=True)
class Reload:
    """Reloads one agent: ``settings`` are those in use, ``args`` the command line's arguments."""

    conf: Any
    args: Sequence[str]
    service: Service
    loop: Loop
    status_file: StatusFile
    settings: opts.Settings
    adapter: Any
    """keystoneauth's adapter to Placement."""
    switching: Switching

    def request(self) -> None:
        """Reload between two periods, then run a period.  Signal handlers may call it.

        The period begins at a random time: often all hosts are reloaded at once.
        """
        reloaded = self.service.reloading()
        self.loop.post(self._read).add_done_callback(lambda _: reloaded())

    def _read(self) -> None:
        for subject, read in (
            ("The configuration", self._read_configuration),
            ("The set of provider files", self.service.nodes.provider_files.read),
        ):
            try:
                read()
            except config.ConfigError as err:
                LOG.warning("%s was not reloaded, the previous one stays in use: %s", subject, err)
            except Exception:
                LOG.exception("%s was not reloaded", subject)
        within = self.settings.spread(self.switching.heartbeat.hosts)
        self.loop.reschedule(self.settings.interval, random.uniform(0.0, within))

    def _read_configuration(self) -> None:
        config.reload(self.conf, self.args)
        now, before = config.settings(self.conf), self.settings
        self.status_file.interval = now.interval
        # Only rules of mutable options can have changed: oslo.config keeps the values of others.
        nodes, rules = self.service.nodes, now.rules
        nodes.rules = rules
        trackers: list[Tracker] = [*nodes.trackers.values(), *nodes.saved_trackers.values()]
        for tracker in trackers:  # they use the rules from the next period on
            tracker.rules = tracker.root.times = rules
            times = rules.verify_every, rules.audit_every
            if times != (before.rules.verify_every, before.rules.audit_every):
                # At a random time: often all hosts are reloaded at once.
                tracker.root.schedule.reset(self.service.clock(), rules)
        for loaded in nodes.drivers:
            loaded.calls.within = float(self.conf.compute.driver_timeout)
        if (now.registry, now.interval) != (before.registry, before.interval):
            self.switching.follow(now)
        update_timeout(self.adapter, self.conf)
        self.settings = now
