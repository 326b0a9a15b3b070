"""Differences between Nova's driver interface and ours, as tables.  Pure."""

from collections.abc import Mapping
from inspect import getdoc

from drivers.abilities import ABILITY_OF, LEGACY, methods
from reportclient.live_provider import OF_THE_TREE, LiveProvider
from reportclient.provider_tree import ProviderTree

MUST, LOOK, DROP, FINE = "must", "look", "drop", "fine"
"""Verdicts: has to be changed; works, with another effect; not used here; fine as it is."""

NEWEST = "update_provider_tree"
OLDER_METHODS = methods(*LEGACY)
OLDER = "an older method: it works, and update_provider_tree can report more (docs/porting.rst)"


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
"""The methods that the agent calls, each with its verdict and advice."""

HELPERS = frozenset({"_get_allocation_ratios", "_get_reserved_host_disk_gb_from_config"})
"""Helper methods of Nova's base class that ours has, too."""

TREE_METHODS = frozenset(name for name in dir(ProviderTree) if not name.startswith("_"))
LIVE_NAMES = OF_THE_TREE.union(
    ["uuid"], (name for name in dir(LiveProvider) if not name.startswith("_"))
)
"""What a live provider has: an item of ``roots`` or ``children``."""
TREE_LOOKS: Mapping[str, str] = {
    "update_traits": "sets all in the tree; in Placement others' stay: prefer set_own_traits",
    "update_aggregates": "sets all in the tree, as update_traits: prefer set_own_aggregates",
    "update_resources": "stored in the tree only: they are not written to Placement",
}

CLASS_ATTRIBUTES: Mapping[str, tuple[str, str]] = {
    "capabilities": (FINE, "those with a COMPUTE_* trait are set on the root"),
    "requires_allocation_refresh": (DROP, "allocations are read only for a reshape"),
    "rebalances_nodes": (DROP, "the agent follows the nodes that the driver returns"),
    "vif_driver_class": (DROP, "not used here"),
}

_CONF = "self.context.conf; the driver's own options come from list_opts()"
USES: Mapping[str, str] = {
    "nova": "nova is not installed here: copy what is needed",
    "nova.block_device": "the agent does not manage guests: remove it",
    "nova.compute.provider_tree": "drivers.api, for ProviderTree",
    "nova.compute.provider_tree.ProviderTree": "drivers.api.ProviderTree",
    "nova.conf": _CONF,
    "nova.conf.CONF.host": "self.context.host",
    "nova.conf.CONF.state_path": "self.context.state_path",
    "nova.context": "there are no request contexts: remove the argument",
    "nova.exception": "drivers.api.DriverError, or the driver's own error",
    "nova.exception.HypervisorUnavailable": "drivers.api.DriverNotReady",
    "nova.exception.InvalidConfiguration": "drivers.api.DriverError, raised in __init__",
    "nova.exception.ReshapeFailed": "drivers.api.ReshapeFailed",
    "nova.exception.ReshapeNeeded": "drivers.api.ReshapeNeeded",
    "nova.exception.VirtDriverNotReady": "drivers.api.DriverNotReady",
    "nova.i18n": "the text itself: messages are not translated here",
    "nova.objects": "there are no versioned objects: use plain values",
    "nova.objects.fields.ResourceClass": "os_resource_classes, or the name itself",
    "nova.objects.fields.ResourceClass.normalize_name": "os_resource_classes.normalize_name",
    "nova.privsep": "there is no privileged helper: the unit gives the agent what it needs",
    "nova.rpc": "only the agent uses the message bus",
    "nova.scheduler.client.report": "only the agent writes to Placement",
    "nova.service": "the agent calls get_available_nodes and update_provider_tree in each period",
    "nova.utils": "copy the function that is needed",
    "nova.utils.normalize_rc_name": "os_resource_classes.normalize_name",
    "nova.utils.synchronized": "threading.Lock",
    "nova.virt.driver": "drivers.api",
    "nova.virt.driver.ComputeDriver": "drivers.api.ComputeDriver",
    "nova.virt.event": "there are no guest events; context.wake() asks for a period now",
    "nova.virt.hardware": "copy the function that is needed; drivers.inventory has cpu_set",
    "nova.virt.virtapi": "there is no virtapi",
    "eventlet": "use threads: the agent does not run under eventlet",
    "greenlet": "use threads: the agent does not run under eventlet",
    "oslo_config.cfg.CONF": _CONF,
    "oslo_messaging": "only the agent uses the message bus",
    "oslo_privsep": "there is no privileged helper: the unit gives the agent what it needs",
    "oslo_rootwrap": "there is no privileged helper: the unit gives the agent what it needs",
    "oslo_service": "use the agent's periods, or a thread that cleanup_host ends",
}
"""Replacements by dotted name; the longest matching prefix applies."""


def instead_of(dotted: str) -> str | None:
    """Return the replacement of a dotted name of Nova's, ``None`` if none is needed."""
    parts = dotted.split(".")
    for length in range(len(parts), 0, -1):
        advice = USES.get(".".join(parts[:length]))
        if advice is not None:
            return advice
    return None
