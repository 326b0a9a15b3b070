"""The driver API: the only module that an author of a driver imports.

A driver lists the devices of a host, and is registered as an entry point of the group
``compute_agent.drivers``::

    class Disks(DeviceDriver):
        def devices(self, node):
            for disk in os.listdir("/sys/block"):
                yield Device(f"disk_{disk}", {"CUSTOM_LOCAL_DISK": 1})

What a list can't express is written to the provider tree by a :class:`ComputeDriver`.  Everything
else is optional: the agent checks once, when it loads the driver, which of the small protocols in
``drivers/abilities.py`` it implements.  ``docs/driver-api.rst`` is the reference.
"""

from drivers.abilities import Notify
from drivers.devices import Device, DeviceDriver
from drivers.driver import ComputeDriver, DriverContext, Store
from drivers.errors import DriverError, DriverNotReady, ReshapeFailed, ReshapeNeeded
from drivers.inventory import cpu_set, root_inventory
from drivers.opts import inventory_policy
from drivers.opts import list_opts as inventory_opts
from reportclient.model import Allocations, ProviderData
from reportclient.provider_tree import ProviderTree

__all__ = [
    "API_VERSION",
    "OLDEST_API_VERSION",
    "Allocations",
    "ComputeDriver",
    "Device",
    "DeviceDriver",
    "DriverContext",
    "DriverError",
    "DriverNotReady",
    "Notify",
    "ProviderData",
    "ProviderTree",
    "ReshapeFailed",
    "ReshapeNeeded",
    "Store",
    "cpu_set",
    "inventory_opts",
    "inventory_policy",
    "root_inventory",
]

API_VERSION = (1, 0)
"""Major, minor.

A new minor version only adds: drivers for older minor versions work unchanged.  A new major
version may remove or change, and is announced a release before.  The agent refuses a driver
written for a newer version, or for a version before ``OLDEST_API_VERSION``.
"""

OLDEST_API_VERSION = (1, 0)
"""Drivers for an older API version are not loaded."""
