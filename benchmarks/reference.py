"""Run one case with Nova's client (the reference), in its own virtual environment and process.

    python -m benchmarks.reference URL REQUEST_LOG PROVIDERS CONSUMERS

Prints the costs of each step as JSON.

A start and a period call the two methods of nova's own ResourceTracker that use Placement in
``ResourceTracker.update_available_resource``, in the same order:
``_remove_deleted_instances_allocations`` (not for a new compute node) and ``_update_to_placement``.
Its database operations are left out: the only look-up of these two methods, the service record, is
answered from memory, and all guests are tracked, so that no instance is looked up.  Threads are
Python's own; eventlet patches nothing.
"""

from __future__ import annotations

import json
import sys
import time
import types
from pathlib import Path
from typing import Any

from keystoneauth1 import loading
from nova import conf, context, exception, objects  # type: ignore[import-not-found]
from nova.compute import manager, resource_tracker  # type: ignore[import-not-found]
from nova.scheduler.client import report  # type: ignore[import-not-found]
from nova.virt import driver  # type: ignore[import-not-found]

from benchmarks.host import NODE, ROOT, Host
from benchmarks.meter import Meter
from benchmarks.scenarios import Scenarios
from benchmarks.somebody import Somebody

PERIOD = 60.0
REFRESH = 301.0


class HostDriver(driver.ComputeDriver):  # type: ignore[misc]
    """Reports the benchmark's host."""

    def __init__(self, host: Host) -> None:
        super().__init__(virtapi=None)
        self.host = host

    def update_provider_tree(
        self, provider_tree: Any, nodename: str, allocations: Any = None
    ) -> None:
        """See :meth:`benchmarks.host.Host.describe`."""
        assert nodename == NODE
        self.host.describe(provider_tree, allocations, exception.ReshapeNeeded)


class Clock:
    """Replaces the ``time`` module in the report client, so that time can be put forward."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def time(self) -> float:
        """Return the seconds since the epoch, put forward."""
        return time.time() + self.ahead

    def sleep(self, seconds: float) -> None:
        """Sleep, as ``time.sleep`` does."""
        time.sleep(seconds)


class Reference:
    """The reference's resource tracker and report client."""

    def __init__(self, host: Host, clock: Clock, service: Any) -> None:
        self._host = host
        self._clock = clock
        self._service = service
        self._context = context.get_admin_context()
        self._guests: list[str] = []
        self._is_new = True
        self._client: report.SchedulerReportClient
        self._tracker: resource_tracker.ResourceTracker

    def start(self) -> None:
        """Start: new objects and a new connection; from the second start on the node exists."""
        self._client = report.SchedulerReportClient()
        self._tracker = resource_tracker.ResourceTracker(
            NODE, HostDriver(self._host), reportclient=self._client
        )
        self.has_guests(self._guests)
        self._report(startup=True)
        self._is_new = False

    def forget(self) -> None:
        """Do nothing: the reference saves no view."""

    def period(self, after: float) -> None:
        """Run a period ``after`` seconds later."""
        self._clock.ahead += after
        self._report(startup=False)

    def quiet(self) -> None:
        """Run a period before the next refresh of associations."""
        self.period(PERIOD)

    def refresh(self) -> None:
        """Run a period that refreshes the associations."""
        self.period(REFRESH)

    def set_enabled(self, *, enabled: bool) -> None:
        """Switch the host as the compute manager's ``set_host_enabled`` does in Placement."""
        self._service.disabled = not enabled
        virtapi = manager.ComputeVirtAPI(types.SimpleNamespace(reportclient=self._client))
        virtapi.update_compute_provider_status(self._context, ROOT, enabled)

    def has_guests(self, guests: list[str]) -> None:
        """Track all guests."""
        self._guests = guests
        self._tracker.tracked_instances = set(guests)

    def sees(self, trait: str) -> bool:
        """Whether the root has this trait in the client's cache."""
        return bool(self._client._provider_tree.has_traits(ROOT, [trait]))

    def _report(self, *, startup: bool) -> None:
        node = objects.ComputeNode(uuid=ROOT, hypervisor_hostname=NODE, host=NODE)
        if not self._is_new:
            self._tracker._remove_deleted_instances_allocations(self._context, node, [], {})
        self._tracker._update_to_placement(self._context, node, startup)


def begin(url: str) -> tuple[Clock, types.SimpleNamespace]:
    """Prepare Nova's modules; return their clock, and the host's service record.

    Options are set as nova.conf would: a token, and an endpoint without a catalog.
    """
    conf.CONF([], project="nova", default_config_files=[])
    conf.CONF.set_override("auth_type", "admin_token", group="placement")
    options = loading.get_auth_plugin_conf_options("admin_token")
    conf.CONF.register_opts(options, group="placement")
    conf.CONF.set_override("endpoint", url, group="placement")
    conf.CONF.set_override("token", "admin", group="placement")
    objects.register_all()
    service = types.SimpleNamespace(disabled=False)
    objects.Service.get_by_compute_host = staticmethod(lambda *_: service)
    report.time = clock = Clock()
    return clock, service


def main(argv: list[str]) -> None:
    """Run the case."""
    url, log, providers, consumers = argv[1:]
    clock, service = begin(url)
    host, meter = Host(int(providers)), Meter(Path(log))
    side = Reference(host, clock, service)
    Scenarios(side, host, int(consumers), Somebody(url), meter).run()
    sys.stdout.write(json.dumps(meter.as_dict()))


if __name__ == "__main__":
    main(sys.argv)
