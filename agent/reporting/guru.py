"""SIGUSR2: the Guru Meditation Report of oslo.reports on standard error.

It shows what each thread does now, and the configuration without the values of secret options.
"""

import logging
import sys
from types import FrameType, SimpleNamespace
from typing import Any

from agent import DISTRIBUTION, version
from agent.reporting import logs

LOG = logging.getLogger("compute_agent.service")

PACKAGE = SimpleNamespace(product_string=lambda: DISTRIBUTION, version_string_with_package=version)


def dump(conf: Any, frame: FrameType | None) -> None:
    """Write the report; ``frame`` is where the signal interrupted."""
    # 10 MiB, loaded only for a report.
    from oslo_reports.generators.conf import ConfigReportGenerator  # noqa: PLC0415
    from oslo_reports.guru_meditation_report import TextGuruMeditation  # noqa: PLC0415

    # The section of its own shows the global configuration, which only oslo.messaging reads.
    own = f"Configuration of {DISTRIBUTION}", ConfigReportGenerator(conf)
    TextGuruMeditation.persistent_sections = [own]
    try:
        report = TextGuruMeditation(PACKAGE, frame).run()
    except Exception:
        LOG.exception("The report of SIGUSR2 could not be made")
    else:
        sys.stderr.write(f"{logs.without_secrets(report)}\n")
