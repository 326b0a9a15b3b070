"""Services whose state is reported to a nova-conductor, for benchmarks.heartbeats.

    python -m benchmarks.nova_heartbeats NOVA_CONF SERVICES ROUNDS RATE

Runs in the virtual environment of the reference.  Creates the services through the conductor,
prints a line, waits for one on standard input, reports and prints another line.
"""

from __future__ import annotations

import sys
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nova import conf, context, objects, rpc  # type: ignore[import-not-found]
from nova.conductor import api, rpcapi  # type: ignore[import-not-found]
from nova.objects import base  # type: ignore[import-not-found]

AT_ONCE = 16


def main(config: str, services: str, rounds: str, rate: str) -> None:
    """Create services and report their states."""
    rpc.set_defaults(control_exchange="nova")
    conf.CONF([], project="nova", default_config_files=[config])
    rpc.init(conf.CONF)
    objects.register_all()
    base.NovaObject.indirection_api = rpcapi.ConductorAPI()
    admin = context.get_admin_context()
    api.API().wait_until_ready(admin)
    with ThreadPoolExecutor(AT_ONCE) as pool:
        created = list(pool.map(lambda number: _created(admin, number), range(int(services))))
        print("created", flush=True)
        sys.stdin.readline()
        began = time.monotonic()
        for number, service in enumerate(created * int(rounds)):
            time.sleep(max(0.0, began + number / float(rate) - time.monotonic()))
            pool.submit(_report, service)
    print("reported", flush=True)


def _created(admin: Any, number: int) -> Any:
    service = objects.Service(admin)
    service.host, service.binary = f"host{number}", "nova-compute"
    service.topic, service.report_count = "compute", 0
    service.create()
    return service


def _report(service: Any) -> None:
    """Do what ``nova.servicegroup.drivers.db`` does for each report."""
    service.report_count += 1
    service.save()


if __name__ == "__main__":
    main(*sys.argv[1:])
