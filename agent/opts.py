"""The agent's options and settings.  Options that mean the same as Nova's have Nova's names."""

import socket
from dataclasses import dataclass, field
from pathlib import Path

from oslo_config import cfg

from agent.metrics import opts as metrics
from agent.metrics.opts import MonitoringSettings
from agent.period.rules import Rules
from agent.registry import opts as registry
from agent.registry.opts import RegistrySettings
from drivers import opts as driver_opts
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
        help="Driver, or several by precedence: names of entry points of the group "
        "compute_agent.drivers. The first driver names the nodes.",
    ),
    cfg.IntOpt(
        "update_resources_interval",
        default=0,
        mutable=True,
        min=-1,
        help="Seconds between two periods. 0 means 60. -1 means one period at start, and "
        "further ones only on request (SIGHUP, an event of the hypervisor).",
    ),
    cfg.IntOpt(
        "periodic_fuzzy_delay",
        min=0,
        sample_default=120,
        help="Seconds over which hosts spread what all of them may do at once: the first period "
        "after a start (a new host's is at once), the period after a reload, and a change of the "
        "service record. Each host waits for a random part of them. Left out: a second for each 20 "
        "hosts of the registry; if "
        "their number is unknown, 120, but not more than two intervals. 0: no delay.",
    ),
    cfg.StrOpt(
        "transport_url",
        default="",
        secret=True,
        help="URL of the message bus, such as rabbit://user:password@host:5672/. Over it come the "
        "RPC calls that disable and enable this host. Left out: no RPC; without a registry only "
        "computectl disables and enables it.",
    ),
    cfg.StrOpt("control_exchange", default="nova", help="Exchange of the RPC calls to this host."),
    cfg.IntOpt(
        "graceful_shutdown_timeout",
        default=60,
        mutable=True,
        min=1,
        help="Seconds that a stop may take. After that the agent exits at once; it can be "
        "killed at any moment without loss.",
    ),
]

COMPUTE: list[cfg.Opt] = [
    cfg.IntOpt(
        "resource_provider_association_refresh",
        default=schedule.VERIFY_EVERY,
        mutable=True,
        min=0,
        help="Average seconds between two verifications, which compare the whole tree with "
        "Placement; the time varies at random by up to half. A verification takes one GET, a "
        "second GET if there are aggregates, and three GETs for each provider that another service "
        "changed. 0: no verifications.",
    ),
    cfg.IntOpt(
        "audit_interval",
        default=schedule.AUDIT_EVERY,
        mutable=True,
        min=0,
        help="Seconds between two audits, in which everything about every provider is read "
        "again. Audits also find aggregates that were written with a microversion below 1.19, "
        "which verifications miss. The time varies at random. 0: no audits.",
    ),
    cfg.IntOpt(
        "bulk_inventory_writes",
        default=50,
        min=0,
        help="If 8 or more inventories have to be written, as at a first start: write up to this "
        "many in one call to Placement's reshaper. The call needs the role that Placement's policy "
        "requires for a reshape, 'service' by default; if Placement refuses the call, inventories "
        "are written one by one. 0: always one by one.",
    ),
    *driver_opts.OWNER_OPTS,
    *driver_opts.CALL_OPTS,
    cfg.ListOpt(
        "image_type_exclude_list",
        default=[],
        help="Types of images that this host does not accept, such as raw or qcow2: their traits"
        " COMPUTE_IMAGE_TYPE_* are removed, whichever driver has the capability.",
    ),
    cfg.StrOpt(
        "provider_config_location",
        default=PROVIDER_CONFIG_LOCATION,
        help="Directory of provider files: *.yaml that add custom inventories and traits to "
        "providers. They are read at start and on SIGHUP; an invalid file changes nothing, and is "
        "logged with its line. Only the default directory may be missing.",
    ),
    cfg.StrOpt(
        "root_provider",
        default="own",
        choices=[
            ("own", "this agent creates and reports the root providers of its nodes"),
            (
                "attach",
                "another service, such as nova-compute, reports them; this agent adds children",
            ),
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
        "reports the node now has set its trait on the node's root provider. -1: never removed.",
    ),
    cfg.IntOpt(
        "removed_child_delay",
        default=900,
        min=-1,
        help="With root_provider = attach: a child that is no longer reported is emptied and "
        "taken out of the tree, and deleted after this many seconds, at least 2.5 times "
        "resource_provider_association_refresh. Until then nova-compute may have the child in its "
        "copy of the tree, and fails if it is deleted. With -1, or if the other option is 0, the "
        "empty child stays in the tree.",
    ),
    cfg.BoolOpt(
        "reshape_when_running",
        default=False,
        mutable=True,
        help="Let a driver move inventory with its allocations (a reshape) at any time. Otherwise "
        "a reshape is done only at start, until the driver has reported once after it, and shown "
        "as pending until then.",
    ),
]

PLACEMENT: list[cfg.Opt] = [
    cfg.IntOpt(
        "max_concurrency",
        default=schedule.AT_ONCE,
        min=1,
        max=32,
        help="Maximum number of concurrent requests if many changes have to be written. "
        "Few changes are always written one after the other.",
    ),
]

COMMAND_LINE: list[cfg.Opt] = [
    cfg.BoolOpt(
        "once", default=False, help="Run one period, then exit: 0 if all was reported, 1 if not."
    ),
    cfg.BoolOpt(
        "check",
        default=False,
        help="Check the configuration, the drivers, the provider files and Placement, print what "
        "would be used and every error, and exit: 0 without errors, else 2. Writes nothing.",
    ),
    cfg.BoolOpt(
        "dev",
        default=False,
        help="Start an embedded Placement (SQLite, in state_path), report to it and draw the "
        "tree. For trials.",
    ),
]

HOSTS_A_SECOND = 20
"""Number of hosts that do at once what all hosts do, with up to four requests each."""
UNKNOWN_FLEET = 120.0
"""Seconds over which an unknown number of hosts does that."""
READY_WITHIN = 15.0
"""Most seconds until systemd is told READY, even if no period has finished."""


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """Return ``[(group, options)]``, for the sample configuration."""
    return [
        ("DEFAULT", DEFAULT),
        ("compute", COMPUTE),
        ("placement", PLACEMENT),
        (metrics.GROUP, metrics.MONITORING),
        *registry.list_opts(),
    ]


@dataclass(frozen=True, slots=True)
class Settings:
    """The agent's own settings; times in seconds, ``None`` for never."""

    host: str
    state_path: Path
    drivers: tuple[str, ...]
    interval: float | None
    first_within: float | None
    """``periodic_fuzzy_delay``, see :meth:`spread`."""
    at_once: bool
    shutdown_within: float
    rules: Rules
    bulk_chunk: int
    registry: RegistrySettings
    provider_config: Path = Path(PROVIDER_CONFIG_LOCATION)
    transport_url: str = ""
    exchange: str = "nova"
    monitoring: MonitoringSettings = field(default_factory=MonitoringSettings)

    def spread(self, hosts: int | None) -> float:
        """Return the seconds over which a fleet spreads what all of its hosts may do at once.

        ``hosts``: how many the registry has; ``None`` if unknown.
        """
        if self.at_once:
            return 0.0
        if self.first_within is not None:
            return self.first_within
        if hosts is not None and self.registry.access == "rpc":  # else it has this host only
            return hosts / HOSTS_A_SECOND
        return min(UNKNOWN_FLEET, 2 * (self.interval or 0.0))


def settings(conf: cfg.ConfigOpts) -> Settings:
    """Return the agent's settings.

    :raises ValueError: (or RegistryConfigError) an option has an invalid value.
    """
    seconds = conf.update_resources_interval
    interval = None if seconds < 0 else float(seconds or schedule.PERIOD)
    if conf.registry.access == "rpc" and not conf.transport_url:
        raise ValueError("[registry] access = rpc needs transport_url")
    records = registry.settings(conf)
    if records.access == "direct" and records.connection:
        raise ValueError(
            "[registry] connection: only compute-registry opens a database; set [registry] access "
            "= rpc and transport_url, or remove the option"
        )
    refresh = conf.compute.resource_provider_association_refresh
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
    return Settings(
        host=conf.host,
        state_path=Path(conf.state_path).absolute(),
        drivers=tuple(conf.compute_driver),
        interval=interval,
        at_once=conf.dev,
        first_within=conf.periodic_fuzzy_delay,
        shutdown_within=float(conf.graceful_shutdown_timeout),
        rules=Rules(
            owner_traits=tuple(conf.compute.owner_trait),
            images_excluded=frozenset(conf.compute.image_type_exclude_list),
            verify_every=float(refresh) if refresh else None,
            audit_every=float(conf.compute.audit_interval) or None,
            reshape_when_running=conf.compute.reshape_when_running,
            at_once=conf.placement.max_concurrency,
            nodes_at_once=conf.compute.max_concurrent_nodes,
            remove_after=_seconds(conf.compute.vanished_node_delay),
            attached=conf.compute.root_provider == "attach",
            remove_child_after=_seconds(conf.compute.removed_child_delay),
            period=interval or schedule.PERIOD,
        ),
        bulk_chunk=conf.compute.bulk_inventory_writes,
        registry=records,
        provider_config=Path(conf.compute.provider_config_location),
        transport_url=conf.transport_url,
        exchange=conf.control_exchange,
        monitoring=metrics.settings(conf),
    )


def _seconds(value: int) -> float | None:
    return None if value < 0 else float(value)
