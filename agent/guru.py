"""SIGUSR2: a Guru Meditation Report on standard error, as OpenStack's services write it.

What runs where just now, for whoever wonders why nothing happens.  oslo.reports is loaded
only then, and options that are secret are masked by it.
"""

import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType
from typing import Any

from agent.loop import Loop
from agent.service import Service
from agent.version import DISTRIBUTION, version
from reportclient.plain_text import plain

LOG = logging.getLogger(__name__)

Section = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Guru:
    """Everything that it tells of."""

    conf: Any
    service: Service
    loop: Loop

    def dump(self, frame: FrameType | None) -> None:
        """Write the report; ``frame`` is where the signal came.  Whatever fails is logged."""
        try:
            text = self.report(frame)
        except Exception:
            LOG.exception("No Guru Meditation Report")
            return
        sys.stderr.write("\n".join(map(plain, text.split("\n"))) + "\n")
        sys.stderr.flush()

    def report(self, frame: FrameType | None) -> str:
        """The text of it."""
        # 10 MiB that nobody needs before.
        from oslo_reports import report  # noqa: PLC0415
        from oslo_reports.generators import conf, process  # noqa: PLC0415
        from oslo_reports.generators import threading as threads  # noqa: PLC0415
        from oslo_reports.models.with_default_views import ModelWithDefaultViews  # noqa: PLC0415
        from oslo_reports.views.text.generic import KeyValueView  # noqa: PLC0415

        def model(section: Callable[[], Section]) -> Callable[[], Any]:
            return lambda: ModelWithDefaultViews(section(), text_view=KeyValueView())

        made = report.TextReport("Guru Meditation")
        for heading, section in (
            ("Package", _package),
            ("Loop", self._loop),
            ("Roots", self._roots),
            ("Drivers", self._drivers),
        ):
            made.add_section(heading, model(section))
        made.add_section("Names of threads", model(_threads))
        made.add_section("Threads", threads.ThreadReportGenerator(frame))
        made.add_section("Processes", process.ProcessReportGenerator())
        made.add_section("Configuration", conf.ConfigReportGenerator(self.conf))
        return str(made.run())

    def _loop(self) -> Section:
        return {"waiting commands": self.loop.commands.qsize(), "stopping": self.loop.stopping}

    def _roots(self) -> Section:
        """What is known of each, and what is being done with it."""
        return {
            f"{one.node} ({one.uuid})": {
                "doing": one.doing or "nothing",
                "providers": len(one.view.snapshot.providers),
                "certain": one.view.certain,
                "refused": {key: str(err) for key, err in one.root.refusals.errors().items()},
            }
            for one in list(self.service.nodes.trackers.values())
        }

    def _drivers(self) -> Section:
        """Calls that have not returned yet."""
        now = time.monotonic()
        return {
            one.name: {
                "calls under way": [
                    f"{method} for {now - began:.1f} s" for began, method in list(one.calls.now)
                ]
            }
            for one in self.service.nodes.drivers
        }


def _package() -> Section:
    return {"product": DISTRIBUTION, "version": version()}


def _threads() -> Section:
    """The stacks have numbers alone."""
    return {f"#{one.ident}": one.name for one in threading.enumerate()}
