"""Many hosts in one process, each with the agent's own parts, for tests of a fleet.

    python -m tests.servers.fleet_hosts CONFIG DIRECTORY FIRST COUNT

Hosts share the connections of their process, have hypervisors with nothing to say, and only three
in ten can be called: each RPC server has a connection of its own.  All else is what
``compute-agent`` runs.

Says ``ready`` once every host has heard of its record, or waited for it; ends with its standard input.
"""

import logging
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent import config
from agent.bus import messaging
from agent.loop import Loop
from agent.nodes.identity import compute_id
from agent.nodes.nodes import Nodes
from agent.opts import Settings
from agent.placement import adapter_from_conf, agent_api
from agent.reporting import logs
from agent.reporting.systemd import Systemd
from agent.service import Service
from agent.switching.switching import Switching, switching
from drivers.api import ComputeDriver, DriverContext
from drivers.loaded import LoadedDriver
from reportclient.http import API
from reportclient.provider_tree import ProviderTree

STARTING_AT_ONCE = 16
TURN = 0.05
"""Seconds that a thread may run: with hundreds of them, Python's 5 ms go into waking them up."""
VCPUS = 8
CALLED = ("0", "4", "8")
"""Last digits of the hosts that answer calls."""
CROWDED = (
    "oslo.messaging._drivers.pool",
    "oslo_messaging._drivers.amqpdriver",
    "urllib3.connectionpool",
)
"""Complain that so many share one connection."""


def name_of(number: int) -> str:
    return f"host{number:04}"


def uuid_of(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012}"


class SmallHypervisor(ComputeDriver):
    """One node, by the name of its host."""

    def get_available_nodes(self) -> list[str]:
        return [self.context.host]

    def update_provider_tree(
        self, provider_tree: ProviderTree, nodename: str, allocations: Any = None
    ) -> None:
        provider_tree.update_inventory(nodename, {"VCPU": {"total": VCPUS}})


def host(
    settings: Settings, api: API, transport: Any, hypervisor: type[ComputeDriver] = SmallHypervisor
) -> tuple[Loop, Service, Switching]:
    """One host, put together as ``agent.main`` does it."""
    loop = Loop()
    driver = hypervisor(DriverContext(settings.host, settings.state_path))
    drivers = [LoadedDriver.from_driver("small", driver)]
    nodes = Nodes.from_settings(settings, drivers, api, compute_id(settings.state_path))
    switches = switching(settings, nodes, Systemd(), loop, transport)
    return loop, switches.service, switches


def start(settings: Settings, api: API, transport: Any) -> None:
    loop, service, switches = host(settings, api, transport)
    if not settings.host.endswith(CALLED):
        switches.server = None
    switches.start()
    job = (service.period, settings.interval, 0.0)
    threading.Thread(target=loop.run, args=job, name=settings.host, daemon=True).start()


Host = Callable[[Settings, API, Any], object]
"""Starts one host."""


def begin(config_file: str, directory: str, first: str, count: str, each_host: Host) -> None:
    """Start them all, and say so."""
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(name)s %(message)s")
    sys.setswitchinterval(TURN)
    logs.limit_repeats()
    for crowded in CROWDED:
        logging.getLogger(crowded).setLevel(logging.ERROR)
    conf = config.load_config(["--config-file", config_file])
    common = config.settings(conf)
    api = agent_api(adapter_from_conf(conf), conf)
    transport = messaging.transport(common.transport_url, [config_file])
    hosts = [
        replace(common, host=name_of(each), state_path=Path(directory, name_of(each)))
        for each in range(int(first), int(first) + int(count))
    ]
    for each in hosts:
        each.state_path.mkdir(exist_ok=True)
    with ThreadPoolExecutor(STARTING_AT_ONCE) as pool:
        list(pool.map(lambda settings: each_host(settings, api, transport), hosts))
    print("ready", flush=True)


def main(*arguments: str) -> None:
    begin(*arguments, each_host=start)
    sys.stdin.buffer.read()
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])
