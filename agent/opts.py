"""The agent's options.  Those that mean the same as Nova's have Nova's names."""

import socket

from oslo_config import cfg

from agent.metrics import opts as metrics
from agent.registry import opts as registry
from drivers import opts as driver_opts
from reportclient import schedule

PROVIDER_CONFIG_LOCATION = "/etc/compute-agent/provider_config"

DEFAULT: list[cfg.Opt] = [
    cfg.StrOpt(
        "host",
        default=socket.gethostname(),
        sample_default="<the machine's host name>",
        help="Name of this service: of its record, and the server that RPC calls are sent to.",
    ),
    cfg.StrOpt(
        "state-path",
        default="/var/lib/compute-agent",
        help="Directory for what has to survive a restart: the compute_id file above all.",
    ),
    cfg.ListOpt(
        "compute-driver",
        default=["libvirt"],
        help="Driver, or several in their order, by the names of their entry points in "
        "compute_agent.drivers. The first one names the nodes.",
    ),
    cfg.IntOpt(
        "update_resources_interval",
        default=0,
        mutable=True,
        min=-1,
        help="Seconds between two periods. 0 means 60. -1 means one period at start, and "
        "then only when something asks for one (SIGHUP, an event of the hypervisor).",
    ),
    cfg.IntOpt(
        "periodic_fuzzy_delay",
        default=120,
        min=0,
        help="The first period begins after a random delay of up to this many seconds, but "
        "not more than two intervals, so that hosts which boot together do not all arrive "
        "together.",
    ),
    cfg.StrOpt(
        "transport_url",
        default="",
        secret=True,
        help="The message bus, such as rabbit://user:password@host:5672/, on which this host "
        "is disabled and enabled. Left out: no RPC; the host follows its service record.",
    ),
    cfg.StrOpt(
        "control_exchange",
        default="nova",
        help="The exchange that calls to this host come through.",
    ),
    cfg.IntOpt(
        "graceful_shutdown_timeout",
        default=60,
        mutable=True,
        min=1,
        help="Seconds that a stop may take. After that the agent leaves at once; it can be "
        "killed at any moment without loss.",
    ),
]

COMPUTE: list[cfg.Opt] = [
    cfg.IntOpt(
        "resource_provider_association_refresh",
        default=schedule.VERIFY_EVERY,
        mutable=True,
        min=0,
        help="Seconds between two verifications of the whole tree, on average; each comes up to "
        "half of it earlier or later. One GET, one more where there are aggregates, and three "
        "for each provider that somebody else changed. 0 switches them off.",
    ),
    cfg.IntOpt(
        "audit_interval",
        default=schedule.AUDIT_EVERY,
        mutable=True,
        min=0,
        help="Seconds between two audits, in which everything about every provider is read "
        "again. Verifications do not see aggregates that somebody wrote with a microversion "
        "below 1.19; audits do. Spread at random. 0 switches them off.",
    ),
    cfg.IntOpt(
        "bulk_inventory_writes",
        default=50,
        min=0,
        help="Write up to this many inventories in one call, through Placement's reshaper, "
        "where 8 or more are to be written, as at a first start. "
        "It takes the role that Placement's policy wants there, 'service' by default; where "
        "it is refused, inventories are written one by one. 0 always writes them so.",
    ),
    *driver_opts.OWNER_OPTS,
    *driver_opts.CALL_OPTS,
    cfg.StrOpt(
        "provider_config_location",
        default=PROVIDER_CONFIG_LOCATION,
        help="Directory whose *.yaml files add inventories and traits of the operator's own to "
        "providers. Read at start and on SIGHUP; a bad file changes nothing, and is told with "
        "its line. This directory need not be there, another one has to be.",
    ),
    cfg.StrOpt(
        "root_provider",
        default="own",
        choices=[
            ("own", "this agent makes the root providers of its nodes, and reports them"),
            (
                "attach",
                "they belong to another service, such as nova-compute; devices go beneath them",
            ),
        ],
        help="Whose the root providers are. With attach nothing of them is written but traits "
        "that the drivers add; see docs/attach.rst.",
    ),
    cfg.IntOpt(
        "max_concurrent_nodes",
        default=8,
        min=1,
        max=64,
        help="How many nodes are reported at the same time, where a driver has many. What "
        "hangs is not counted.",
    ),
    cfg.IntOpt(
        "vanished_node_delay",
        default=900,
        mutable=True,
        min=-1,
        help="Seconds until the providers of a node that its driver does not name any more "
        "are removed, and at least 2.5 times resource_provider_association_refresh: by then "
        "another service that reports the node has put its mark there. -1 removes none.",
    ),
    cfg.IntOpt(
        "removed_child_delay",
        default=900,
        min=-1,
        help="With root_provider = attach: seconds between taking a child that is not reported "
        "any more out of the tree, empty, and deleting it, and at least 2.5 times "
        "resource_provider_association_refresh: until then nova-compute may have it in its copy "
        "of the tree, and fails where it is deleted. -1, or 0 for that option, leaves it in the "
        "tree, empty.",
    ),
    cfg.BoolOpt(
        "reshape_when_running",
        default=False,
        mutable=True,
        help="Let a driver move inventory together with its allocations at any time. "
        "Otherwise that is done at start only, and shown as pending until then.",
    ),
]

PLACEMENT: list[cfg.Opt] = [
    cfg.IntOpt(
        "max_concurrency",
        default=schedule.AT_ONCE,
        min=1,
        max=32,
        help="How many requests may be sent at the same time when much has to be written. "
        "Small changes are always sent one after the other.",
    ),
]

COMMAND_LINE: list[cfg.Opt] = [
    cfg.BoolOpt(
        "once", default=False, help="One period, then exit: 0 if all was reported, 1 if not."
    ),
    cfg.BoolOpt(
        "dev",
        default=False,
        help="Start a Placement of its own (SQLite, in state_path), report to it and draw "
        "the tree. For trying things out.",
    ),
]

READY_WITHIN = 15.0
"""systemd is told READY after this many seconds at the latest, first period or not."""


def list_opts() -> list[tuple[str, list[cfg.Opt]]]:
    """For the sample configuration: ``[(group, options)]``."""
    return [
        ("DEFAULT", DEFAULT),
        ("compute", COMPUTE),
        ("placement", PLACEMENT),
        (metrics.GROUP, metrics.MONITORING),
        *registry.list_opts(),
    ]
