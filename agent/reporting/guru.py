"""SIGUSR2: a Guru Meditation Report on standard error, as OpenStack's services write it.

It shows what each thread does now.  oslo.reports is loaded only when a report is written; it masks
secret options.
"""

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any

from agent.version import DISTRIBUTION, version
from reportclient.plain_text import plain

LOG = logging.getLogger(__name__)

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

    text = report.TextReport("Guru Meditation")
    for heading, section in {"Package": _package, **sections, "Names of threads": _threads}.items():
        text.add_section(heading, model(section))
    text.add_section("Threads", threads.ThreadReportGenerator(frame))
    text.add_section("Processes", process.ProcessReportGenerator())
    text.add_section("Configuration", configuration.ConfigReportGenerator(conf))
    return str(text.run())


def _package() -> Section:
    return {"product": DISTRIBUTION, "version": version()}


def _threads() -> Section:
    """Return the names of threads by number: the section of stacks has only numbers."""
    return {f"#{thread.ident}": thread.name for thread in threading.enumerate()}
