"""Options of metrics and health."""

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from oslo_config import cfg

from drivers.extras import missing

GROUP = "monitoring"
SUFFIX = ".prom"
"""Suffix of files that node_exporter reads."""

MONITORING: list[cfg.Opt] = [
    cfg.StrOpt(
        "listen",
        default="127.0.0.1",
        help="Loopback address of listen_port. Every user of this machine may read it; for "
        "other hosts, put a proxy with authentication in front.",
    ),
    cfg.PortOpt(
        "listen_port",
        default=0,
        help="Port of /metrics for Prometheus, /healthz and /readyz. 0: none.",
    ),
    cfg.StrOpt(
        "textfile",
        help="File for node_exporter's textfile collector, with a name that ends in .prom. The "
        "metrics are written to it every 15 seconds and after each period. Left out: none.",
    ),
]


def require_library(error: type[Exception]) -> None:
    """:raises Exception: an ``error``, if prometheus-client is not installed."""
    if text := missing("metrics", "prometheus_client"):
        raise error(f"[{GROUP}] {text}")


@dataclass(frozen=True, slots=True)
class MonitoringSettings:
    """Where metrics and health are published; nowhere by default."""

    listen: str = "127.0.0.1"
    port: int = 0
    textfile: Path | None = None

    @property
    def is_on(self) -> bool:
        """Whether they are published anywhere."""
        return bool(self.port or self.textfile)


def settings(conf: Any) -> MonitoringSettings:
    """Return the settings.  :raises ValueError: an option has an invalid value."""
    group = conf[GROUP]
    textfile = Path(group.textfile) if group.textfile else None
    if textfile is not None and not textfile.is_absolute():
        raise ValueError(
            f"[{GROUP}] textfile is {group.textfile!r}, and has to be an absolute path"
        )
    if textfile is not None and textfile.suffix != SUFFIX:
        raise ValueError(f"[{GROUP}] textfile has to end in {SUFFIX}: node_exporter reads no other")
    return MonitoringSettings(_loopback(group.listen), group.listen_port, textfile)


def _loopback(text: str) -> str:
    try:
        if ip_address(text).is_loopback:
            return text
    except ValueError:
        pass
    raise ValueError(f"[{GROUP}] listen is {text!r}, and has to be a loopback address: 127.0.0.1")
