"""Options of metrics and health, and what is wrong with them."""

from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path
from typing import Any

from oslo_config import cfg

GROUP = "monitoring"
SUFFIX = ".prom"
"""node_exporter reads no other files."""

MONITORING: list[cfg.Opt] = [
    cfg.StrOpt(
        "listen",
        default="127.0.0.1",
        help="Loopback address on which listen_port is served. Whoever reaches it may read: "
        "for other hosts, put a proxy in front that asks who they are.",
    ),
    cfg.PortOpt(
        "listen_port",
        default=0,
        help="Port that serves /metrics for Prometheus, and /healthz and /readyz. 0 for none.",
    ),
    cfg.StrOpt(
        "listen_socket",
        help="Path of a unix socket that serves the same. Left out: none.",
    ),
    cfg.StrOpt(
        "textfile",
        help="File, ending in .prom, for node_exporter's textfile collector: the same numbers, "
        "written again every 15 seconds and after each period. Left out: none.",
    ),
]


@dataclass(frozen=True, slots=True)
class MonitoringSettings:
    """Where numbers and health go; nowhere by default."""

    listen: str = "127.0.0.1"
    port: int = 0
    socket: Path | None = None
    textfile: Path | None = None

    @property
    def is_on(self) -> bool:
        """Whether anything of it is wanted."""
        return bool(self.port or self.socket or self.textfile)


def settings(conf: Any) -> MonitoringSettings:
    """Read every option once.  :raises ValueError: with the option that can't be used."""
    group = conf[GROUP]
    textfile = _path(group.textfile, "textfile")
    if textfile is not None and textfile.suffix != SUFFIX:
        raise ValueError(f"[{GROUP}] textfile has to end in {SUFFIX}: node_exporter reads no other")
    return MonitoringSettings(
        _loopback(group.listen),
        group.listen_port,
        _path(group.listen_socket, "listen_socket"),
        textfile,
    )


def _loopback(text: str) -> str:
    try:
        if ip_address(text).is_loopback:
            return text
    except ValueError:
        pass
    raise ValueError(f"[{GROUP}] listen is {text!r}, and has to be a loopback address: 127.0.0.1")


def _path(text: str | None, option: str) -> Path | None:
    if not text:
        return None
    if not Path(text).is_absolute():
        raise ValueError(f"[{GROUP}] {option} is {text!r}, and has to be an absolute path")
    return Path(text)
