"""SIGUSR2: a Guru Meditation Report on standard error, as OpenStack's services write it.

It shows what each thread does now.  oslo.reports is loaded only when a report is written; it masks
secret options.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Mapping
from types import FrameType
from typing import TYPE_CHECKING, Any

from agent import DISTRIBUTION, version
from reportclient.plain_text import plain

if TYPE_CHECKING:
    from agent.loop import Loop
    from agent.service import Service

LOG = logging.getLogger("compute_agent.service")

Section = Mapping[str, Any]
Sections = Mapping[str, Callable[[], Section]]
"""Functions by heading; called when a report is written."""


def dump(conf: Any, sections: Sections, frame: FrameType | None) -> None:
    """Write the report; ``frame`` is where the signal interrupted.  Errors are logged."""
    try:
        text = _text(conf, sections, frame)
    except Exception:
        LOG.exception("No Guru Meditation Report")
        return
    sys.stderr.write("\n".join(map(plain, text.split("\n"))) + "\n")
    sys.stderr.flush()


def _text(conf: Any, sections: Sections, frame: FrameType | None) -> str:
    # 10 MiB, loaded only for a report.
    from oslo_reports import report  # noqa: PLC0415
    from oslo_reports.generators import conf as configuration  # noqa: PLC0415
    from oslo_reports.generators import process  # noqa: PLC0415
    from oslo_reports.generators import threading as threads  # noqa: PLC0415
    from oslo_reports.models.with_default_views import ModelWithDefaultViews  # noqa: PLC0415
    from oslo_reports.views.text.generic import KeyValueView  # noqa: PLC0415

    def model(section: Callable[[], Section]) -> Callable[[], Any]:
        return lambda: ModelWithDefaultViews(section(), text_view=KeyValueView())

    everywhere: Sections = {
        "Package": lambda: {"product": DISTRIBUTION, "version": version()},
        **sections,
        # The section of stacks has only numbers.
        "Names of threads": lambda: {f"#{each.ident}": each.name for each in threading.enumerate()},
    }
    text = report.TextReport("Guru Meditation")
    for heading, section in everywhere.items():
        text.add_section(heading, model(section))
    text.add_section("Threads", threads.ThreadReportGenerator(frame))
    text.add_section("Processes", process.ProcessReportGenerator())
    text.add_section("Configuration", configuration.ConfigReportGenerator(conf))
    return str(text.run())


def agent_sections(service: Service, loop: Loop) -> Sections:
    """Return the sections on the loop, the roots and the drivers of one agent."""

    def roots() -> Section:
        """The size and state of each root's view, and its refusals."""
        return {
            f"{tracker.node} ({tracker.uuid})": {
                "providers": len(tracker.view.snapshot.providers),
                "certain": tracker.view.certain,
                "refused": {key: str(err) for key, err in tracker.root.refusals.errors().items()},
            }
            for tracker in list(service.nodes.trackers.values())
        }

    def drivers() -> Section:
        """Each driver's calls that have not returned yet, with their seconds."""
        now = time.monotonic()
        return {
            loaded.name: {
                "calls under way": [
                    f"{method} for {now - began:.1f} s" for began, method in list(loaded.calls.now)
                ]
            }
            for loaded in service.nodes.drivers
        }

    return {
        "Loop": lambda: {"waiting commands": loop.commands.qsize(), "stopping": loop.stopping},
        "Roots": roots,
        "Drivers": drivers,
    }
