"""Options and settings of the agent: its own, of the registry, of metrics and health.

Options that mean the same as Nova's have Nova's names.  compute-registry and computectl read some
of them, too.
"""

import socket
from dataclasses import dataclass
from ipaddress import ip_address
from pathlib import Path

from oslo_config import cfg

from agent.period.rules import Rules
from drivers import opts as driver_opts
from drivers.extras import missing
from reportclient import schedule

PROVIDER_CONFIG_LOCATION = "/etc/compute-agent/provider_config"

DEFAULT: list[cfg.Opt] = [
    cfg.StrOpt(
        "host",
        default=socket.gethostname(),
        max_length=255,
        sample_default="<the machine's host name>",
        help="Name of this service in its service record, and the server name of RPC calls to it.",
    ),
    cfg.StrOpt(
        "state-path",
        default="/var/lib/compute-agent",
        help="Directory of the files that have to survive a restart, above all compute_id.",
    ),
    cfg.ListOpt(
        "compute-driver",
        default=["libvirt"],
        help="Drivers by precedence: entry points of the group compute_agent.drivers. The first "
        "one names the nodes.",
    ),
    cfg.IntOpt(
        "update_resources_interval",
        default=0,
        mutable=True,
        min=-1,
        help="Seconds between two periods. 0 means 60. -1: one period at start, and further ones "
        "only on request (SIGHUP, an event of the hypervisor).",
    ),
    cfg.IntOpt(
        "periodic_fuzzy_delay",
        min=0,
        sample_default=120,
        help="Seconds over which hosts spread what all of them may do at once, each after a random "
        "part of them: the first period after a start (a new host's is at once), the period after "
        "a reload, and a change of the service record. Left out: a second for each 20 hosts of the "
        "registry; if their number is unknown, 120, but not more than two intervals. 0: no delay.",
    ),
    cfg.StrOpt(
        "transport_url",
        default="",
        secret=True,
        help="URL of the message bus, such as rabbit://user:password@host:5672/, for RPC calls "
        "that disable and enable this host. Left out: only computectl does.",
    ),
    cfg.StrOpt("control_exchange", default="nova", help="Exchange of the RPC calls to this host."),
    cfg.IntOpt(
        "graceful_shutdown_timeout",
        default=60,
        mutable=True,
        min=1,
        help="Seconds that a stop may take. After that the agent exits at once; it can be killed "
        "at any moment without loss.",
    ),
]

COMPUTE: list[cfg.Opt] = [
    cfg.IntOpt(
        "resource_provider_association_refresh",
        default=schedule.VERIFY_EVERY,
        mutable=True,
        min=0,
        help="Average seconds between two verifications, which compare the whole tree with "
        "Placement; each time varies at random by up to half. One takes one GET, a second GET if "
        "there are aggregates, and three for each provider that another service changed. 0: none.",
    ),
    cfg.IntOpt(
        "audit_interval",
        default=schedule.AUDIT_EVERY,
        mutable=True,
        min=0,
        help="Average seconds between two audits, which read everything again, also what "
        "verifications miss: aggregates that were written below microversion 1.19. 0: none.",
    ),
    cfg.IntOpt(
        "bulk_inventory_writes",
        default=50,
        min=0,
        help="Of 8 or more inventories, as at a first start, up to this many are written in one "
        "call to Placement's reshaper; if it is refused, since Placement's policy requires another "
        "role for it than 'service', one by one. 0: always one by one.",
    ),
    *driver_opts.OWNER_OPTS,
    *driver_opts.CALL_OPTS,
    cfg.ListOpt(
        "image_type_exclude_list",
        default=[],
        help="Types of images that this host does not accept, such as raw or qcow2: their traits "
        "COMPUTE_IMAGE_TYPE_* are removed, whichever driver has the capability.",
    ),
    cfg.StrOpt(
        "provider_config_location",
        default=PROVIDER_CONFIG_LOCATION,
        help="Directory of provider files, *.yaml with custom inventories and traits, read at "
        "start and on SIGHUP; an invalid one changes nothing. Only the default may be missing.",
    ),
    cfg.StrOpt(
        "root_provider",
        default="own",
        choices=[
            ("own", "this agent creates and reports the root providers of its nodes"),
            ("attach", "another service, such as nova-compute, does; this agent adds children"),
        ],
        help="Owner of the root providers. With attach this agent writes nothing to them except "
        "traits that the drivers add; see docs/attach.rst.",
    ),
    cfg.IntOpt(
        "max_concurrent_nodes",
        default=8,
        min=1,
        max=64,
        help="Number of nodes that are reported at the same time, if a driver has many.",
    ),
    cfg.IntOpt(
        "vanished_node_delay",
        default=900,
        mutable=True,
        min=-1,
        help="Seconds until the providers of a node that its driver no longer reports are removed; "
        "at least 2.5 times resource_provider_association_refresh, so that another service that "
        "reports the node now has set its trait on the root provider. -1: never removed.",
    ),
    cfg.IntOpt(
        "removed_child_delay",
        default=900,
        min=-1,
        help="With root_provider = attach: a child that is no longer reported is emptied and "
        "taken out of the tree, and deleted after this many seconds, at least 2.5 times "
        "resource_provider_association_refresh. Until then nova-compute may have it in its copy of "
        "the tree, and fails if it is deleted. With -1, or if the other option is 0, the empty "
        "child stays in the tree.",
    ),
    cfg.BoolOpt(
        "reshape_when_running",
        default=False,
        mutable=True,
        help="Let a driver move inventory with its allocations (a reshape) at any time, not only "
        "at start, before it has reported; otherwise a later reshape is shown as pending.",
    ),
]

PLACEMENT: list[cfg.Opt] = [
    cfg.IntOpt(
        "max_concurrency",
        default=schedule.AT_ONCE,
        min=1,
        max=32,
        help="Concurrent requests, at most, if there are many changes; few are sent in turn.",
    ),
]

REGISTRY: list[cfg.Opt] = [
    cfg.StrOpt(
        "access",
        default="direct",
        choices=[
            ("direct", "no registry: service.json in state_path, for a single host"),
            ("rpc", "call compute-registry over transport_url, for fleets"),
        ],
        help="Where compute-agent and computectl find the service records.",
    ),
    cfg.IntOpt(
        "service_down_time",
        default=60,
        mutable=True,
        min=2,
        help="Seconds without a heartbeat after which a service is down; the same on all hosts.",
    ),
    cfg.IntOpt(
        "report_interval",
        default=10,
        mutable=True,
        min=1,
        help="Seconds between two heartbeats of an agent. Set it well below service_down_time.",
    ),
    cfg.ListOpt(
        "master_key",
        default=[],
        secret=True,
        mutable=True,
        help="For compute-registry and operators' computectl, never on a hypervisor: the key that "
        "signs calls over the message bus, such as the output of openssl rand -hex 32; unsigned "
        "ones are refused. While it is replaced: the new and the old one, separated by a comma.",
    ),
    cfg.StrOpt(
        "host_key",
        default="",
        secret=True,
        mutable=True,
        help="For an agent: the key of its host, written by compute-registry --host-keys. "
        "The agent signs its calls with it and refuses unsigned calls.",
    ),
]
MONITORING: list[cfg.Opt] = [
    cfg.IPOpt(
        "listen",
        default="127.0.0.1",
        help="Loopback address of listen_port. Every user of this machine may read it; for "
        "other hosts, put a proxy with authentication in front.",
    ),
    cfg.PortOpt("listen_port", default=0, help="Port of /metrics, /healthz and /readyz. 0: none."),
    cfg.StrOpt(
        "textfile",
        help="File for node_exporter's textfile collector, with a name that ends in .prom. The "
        "metrics are written to it every 15 seconds and after each period. Left out: none.",
    ),
]
COMMAND_LINE: list[cfg.Opt] = [
    cfg.BoolOpt("once", help="Run one period, then exit: 0 if all was reported, 1 if not."),
    cfg.BoolOpt(
        "check",
        help="Check the configuration, the drivers, the provider files and Placement, print what "
        "would be used and every error, and exit: 0 without errors, else 2. Writes nothing.",
    ),
    cfg.BoolOpt("dev", help="For trials: start a Placement in state_path, and draw the tree."),
]

HOSTS_A_SECOND = 20
"""Number of hosts that do at once what all hosts do, with up to four requests each."""
UNKNOWN_FLEET = 120.0
"""Seconds over which an unknown number of hosts does that."""
READY_WITHIN = 15.0
"""Most seconds until systemd is told READY, even if no period has finished."""


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``[(group, options)]``, for the sample configuration."""
    own = [("DEFAULT", DEFAULT), ("compute", COMPUTE), ("placement", PLACEMENT)]
    return [*own, ("registry", REGISTRY), ("monitoring", MONITORING)]


@dataclass(frozen=True, slots=True)
class RegistrySettings:
    """The options of [registry] that several programs read; times in seconds."""

    access: str
    down_after: float
    """Seconds without a heartbeat after which a service counts as down."""
    report_interval: float
    master_key: tuple[str, ...]
    host_key: str


def registry_settings(conf: cfg.ConfigOpts) -> RegistrySettings:
    """Return the settings of [registry].  :raises ValueError: options contradict each other."""
    group = conf.registry
    if group.report_interval >= group.service_down_time:
        raise ValueError(
            f"[registry] report_interval ({group.report_interval}) has to be below "
            f"service_down_time ({group.service_down_time}), or no service counts as up"
        )
    keys = tuple(filter(None, group.master_key))
    times = group.service_down_time, group.report_interval
    return RegistrySettings(group.access, *times, keys, group.host_key)


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


def monitoring_settings(conf: cfg.ConfigOpts) -> MonitoringSettings:
    """Return the settings of [monitoring].

    :raises ValueError: an option has an invalid value, or prometheus-client is not installed.
    """
    group = conf.monitoring
    if not ip_address(group.listen).is_loopback:
        raise ValueError(
            f"[monitoring] listen is {group.listen!r}, and has to be a loopback address: 127.0.0.1"
        )
    textfile = Path(group.textfile) if group.textfile else None
    if textfile is not None and not (textfile.is_absolute() and textfile.suffix == ".prom"):
        raise ValueError(
            f"[monitoring] textfile is {group.textfile!r}, and has to be an absolute path that "
            "ends in .prom: node_exporter reads no other"
        )
    found = MonitoringSettings(group.listen, group.listen_port, textfile)
    if found.is_on and (text := missing("metrics", "prometheus_client")):
        raise ValueError(f"[monitoring] {text}")
    return found


@dataclass(frozen=True, slots=True)
class Settings:
    """The agent's own settings; times in seconds, ``None`` for never."""

    host: str
    state_path: Path
    drivers: tuple[str, ...]
    interval: float | None
    first_within: float | None
    """``periodic_fuzzy_delay``, see :meth:`spread`."""
    shutdown_within: float
    rules: Rules
    bulk_chunk: int
    registry: RegistrySettings
    provider_config: Path
    transport_url: str
    exchange: str
    monitoring: MonitoringSettings

    def spread(self, hosts: int | None) -> float:
        """Return the seconds over which a fleet spreads what all of its hosts may do at once.

        ``hosts``: how many the registry has; ``None`` if unknown.
        """
        if self.first_within is not None:
            return self.first_within
        if hosts is not None and self.registry.access == "rpc":  # else it has this host only
            return hosts / HOSTS_A_SECOND
        return min(UNKNOWN_FLEET, 2 * (self.interval or 0.0))


def settings(conf: cfg.ConfigOpts) -> Settings:
    """Return the agent's settings.

    :raises ValueError: an option has an invalid value.
    """
    seconds = conf.update_resources_interval
    interval = None if seconds < 0 else float(seconds or schedule.PERIOD)
    if conf.registry.access == "rpc" and not conf.transport_url:
        raise ValueError("[registry] access = rpc needs transport_url")
    if not conf.state_path:
        raise ValueError("state_path is empty: set a directory, or leave the option out")
    if not conf.host.strip():
        raise ValueError("host is empty: name this service, or leave the option out")
    if not conf.compute.owner_trait:
        raise ValueError("[compute] owner_trait is empty: name a trait, or leave the option out")
    if not conf.compute_driver:
        raise ValueError("compute_driver is empty: name a driver, or leave the option out")
    if len(set(conf.compute_driver)) < len(conf.compute_driver):
        raise ValueError(
            f"compute_driver = {', '.join(conf.compute_driver)}: name each driver once"
        )
    compute = conf.compute
    return Settings(
        host=conf.host,
        state_path=Path(conf.state_path).absolute(),
        drivers=tuple(conf.compute_driver),
        interval=interval,
        first_within=0.0 if conf.dev else conf.periodic_fuzzy_delay,
        shutdown_within=float(conf.graceful_shutdown_timeout),
        rules=Rules(
            owner_traits=tuple(compute.owner_trait),
            images_excluded=frozenset(compute.image_type_exclude_list),
            verify_every=float(compute.resource_provider_association_refresh) or None,
            audit_every=float(compute.audit_interval) or None,
            reshape_when_running=compute.reshape_when_running,
            at_once=conf.placement.max_concurrency,
            nodes_at_once=compute.max_concurrent_nodes,
            remove_after=_seconds(compute.vanished_node_delay),
            attached=compute.root_provider == "attach",
            remove_child_after=_seconds(compute.removed_child_delay),
            period=interval or schedule.PERIOD,
        ),
        bulk_chunk=compute.bulk_inventory_writes,
        registry=registry_settings(conf),
        provider_config=Path(compute.provider_config_location),
        transport_url=conf.transport_url,
        exchange=conf.control_exchange,
        monitoring=monitoring_settings(conf),
    )


def _seconds(value: int) -> float | None:
    return None if value < 0 else float(value)
