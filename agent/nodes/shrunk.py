"""Inventory that this agent made smaller than what consumers use."""

import logging

from agent.reporting.reports import Report
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.plan import SetInventories, SetInventory
from reportclient.reader import part_of
from reportclient.snapshot import Snapshot

LOG = logging.getLogger("compute_agent.placement")


def log_overused(report: Report, before: Snapshot, after: Snapshot, api: API) -> int:
    """Log which inventory has become smaller than what consumers use; return the number of GETs.

    One GET for each provider of which this period wrote less of a class.  What is reserved
    completely is not to be used further, which is reported otherwise.
    """
    if not any(isinstance(each, SetInventory | SetInventories) for each in report.done):
        return 0
    calls = 0
    for uuid in after.changed_since(before):
        old, new = before.get(uuid), after.get(uuid)
        if old is None or new is None:
            continue
        smaller = {
            name: record.capacity
            for name, record in new.inventory.items()
            if record.reserved != record.total
            and name in old.inventory
            and record.capacity < old.inventory[name].capacity
        }
        if not smaller:
            continue
        calls += 1
        try:
            used = part_of(f"/resource_providers/{uuid}/usages", "usages", api)
        except PlacementError as err:
            LOG.debug("The usages of provider %s could not be read: %s", uuid, err)
            continue
        for name, capacity in smaller.items():
            if used.get(name, 0) > capacity:
                LOG.warning(
                    "Node %s: %s of provider %s (%s) is now %d, but consumers use %d: "
                    "computectl audit names them",
                    report.node,
                    name,
                    new.name,
                    uuid,
                    capacity,
                    used[name],
                )
    return calls
