"""Differences between Nova's driver interface and ours, as tables.  Pure."""

from collections.abc import Mapping
from inspect import getdoc

from drivers.abilities import ABILITY_OF, LEGACY, methods
from reportclient.provider_tree import ProviderTree

MUST, LOOK, DROP, FINE = "must", "look", "drop", "fine"
"""It fails as it is; it works and means something else; nobody needs it; it stays."""

NEWEST = "update_provider_tree"
OLDER_METHODS = methods(*LEGACY)
OLDER = "an older way: it works, and update_provider_tree can say more (docs/porting.rst)"


def _when_called(method: str) -> str:
    """Return the first line of the method's description in :mod:`drivers.abilities`."""
    line = (getdoc(getattr(ABILITY_OF[method], method)) or "").partition("\n")[0]
    return line[:1].lower() + line[1:].rstrip(".")


CALLED: Mapping[str, tuple[str, str]] = {
    "__init__": (FINE, ""),
    "get_available_nodes": (FINE, "called at each period, without arguments"),
    NEWEST: (FINE, "called at each period and node"),
    **{method: (FINE, _when_called(method)) for method in ABILITY_OF},
    **dict.fromkeys(OLDER_METHODS, (LOOK, OLDER)),
}
"""The methods that the agent calls."""

HELPERS = frozenset({"_get_allocation_ratios", "_get_reserved_host_disk_gb_from_config"})
"""Of Nova's base class, and of ours as well."""

TREE_METHODS = frozenset(name for name in dir(ProviderTree) if not name.startswith("_"))
TREE_LOOKS: Mapping[str, str] = {
    "update_traits": "sets all traits, foreign ones too: better add_traits and remove_traits",
    "update_aggregates": (
        "sets all aggregates, foreign ones too: better add_aggregates and remove_aggregates"
    ),
    "update_resources": "kept on the tree only: Placement never sees them",
}

CLASS_ATTRIBUTES: Mapping[str, tuple[str, str]] = {
    "capabilities": (FINE, "those that have a COMPUTE_* trait are set on the root"),
    "requires_allocation_refresh": (DROP, "allocations are read only for a reshape"),
    "rebalances_nodes": (DROP, "a driver names the nodes of this host, and the agent follows"),
    "vif_driver_class": (DROP, "nobody reads it here"),
}

_CONF = "self.context.conf; the driver's own options come from list_opts()"
USES: Mapping[str, str] = {
    "nova": "there is no nova here: bring along what it does",
    "nova.block_device": "guests are not this agent's: leave it out",
    "nova.compute.provider_tree": "drivers.api, for ProviderTree",
    "nova.compute.provider_tree.ProviderTree": "drivers.api.ProviderTree",
    "nova.conf": _CONF,
    "nova.conf.CONF.host": "self.context.host",
    "nova.conf.CONF.state_path": "self.context.state_path",
    "nova.context": "there are no request contexts: leave the argument out",
    "nova.exception": "drivers.api.DriverError, or an error of the driver's own",
    "nova.exception.HypervisorUnavailable": "drivers.api.DriverNotReady",
    "nova.exception.InvalidConfiguration": "drivers.api.DriverError, raised in __init__",
    "nova.exception.ReshapeFailed": "drivers.api.ReshapeFailed",
    "nova.exception.ReshapeNeeded": "drivers.api.ReshapeNeeded",
    "nova.exception.VirtDriverNotReady": "drivers.api.DriverNotReady",
    "nova.i18n": "the text itself: messages are not translated here",
    "nova.objects": "there are no versioned objects: plain values",
    "nova.objects.fields.ResourceClass": "os_resource_classes, or the name itself",
    "nova.objects.fields.ResourceClass.normalize_name": "os_resource_classes.normalize_name",
    "nova.privsep": "there is no privileged helper: the unit gives the agent what it needs",
    "nova.rpc": "the agent speaks to the message bus, a driver does not",
    "nova.scheduler.client.report": "only the agent writes to Placement",
    "nova.service": "the agent schedules: get_available_nodes and update_provider_tree are called",
    "nova.utils": "bring along the function that is needed",
    "nova.utils.normalize_rc_name": "os_resource_classes.normalize_name",
    "nova.utils.synchronized": "threading.Lock",
    "nova.virt.driver": "drivers.api",
    "nova.virt.driver.ComputeDriver": "drivers.api.ComputeDriver",
    "nova.virt.event": "there are no guest events; context.wake() asks for a period now",
    "nova.virt.hardware": "bring along the function that is needed; drivers.inventory has cpu_set",
    "nova.virt.virtapi": "there is no virtapi",
    "eventlet": "threads: eventlet is kept out of this process",
    "greenlet": "threads: eventlet is kept out of this process",
    "oslo_config.cfg.CONF": _CONF,
    "oslo_messaging": "the agent speaks to the message bus, a driver does not",
    "oslo_privsep": "there is no privileged helper: the unit gives the agent what it needs",
    "oslo_rootwrap": "there is no privileged helper: the unit gives the agent what it needs",
    "oslo_service": "the agent's periods, or a thread that cleanup_host ends",
}
"""By dotted name: what stands instead.  The longest that fits holds."""


def instead_of(dotted: str) -> str | None:
    """Return what to use in place of a name of Nova's; ``None``: the same."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        advice = USES.get(".".join(parts[:length]))
        if advice is not None:
            return advice
    return None
