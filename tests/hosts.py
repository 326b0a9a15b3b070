"""The one builder of a hypervisor for tests: a libvirt that answers from memory, drivers on it."""

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from oslo_config import cfg

from agent.state.driver_store import DriverStore
from drivers.api import DriverContext
from drivers.libvirt.connection.host import Host
from drivers.libvirt.connection.session import Deadlines
from drivers.libvirt.driver import LibvirtDriver
from tests.unit.libvirt.fake_binding import FakeLibvirt
from tests.unit.libvirt.hosts import with_disk

UP_FOR = 1e6
"""Seconds since the boot of a host, by default: what comes late after a boot is there."""
PATIENT = Deadlines(connect=60, call=60)
"""Nothing is meant to take so long."""


def context(tmp_path: Path, text: str = "") -> DriverContext:
    """As the agent makes it: options registered, then read from a file."""
    file = tmp_path / "agent.conf"
    file.write_text(text)
    conf = cfg.ConfigOpts()
    for group, options in LibvirtDriver.list_opts():
        conf.register_opts(options, None if group == "DEFAULT" else group)
    conf([], project="test", default_config_files=[str(file)], default_config_dirs=[])
    state_path = tmp_path / "state"
    state_path.mkdir(exist_ok=True)
    return DriverContext("host", state_path, conf, store=DriverStore(state_path))


class FakeHost:
    """``binding`` is what stands in for libvirt's module; :meth:`close` ends all connections.

    ``disk`` is the size of the file system of its instances in bytes; by default this machine's.
    """

    def __init__(
        self,
        directory: Path,
        binding: Any = None,
        *,
        deadlines: Deadlines = PATIENT,
        clock: Callable[[], float] = lambda: UP_FOR + time.monotonic(),
        disk: int | None = None,
    ) -> None:
        self.directory, self.deadlines, self.clock = directory, deadlines, clock
        self.disk = disk
        self.binding: Any = FakeLibvirt() if binding is None else binding
        self.connections: list[Host] = []

    def connection(self) -> Host:
        """As a driver makes it at its start."""
        made = Host("fake:///one", self.binding, self.deadlines, self.directory, self.clock)
        self.connections.append(made if self.disk is None else with_disk(made, self.disk))
        return made

    def driver(self, text: str = "", **otherwise: Any) -> LibvirtDriver:
        """With these options, over a new connection; ``otherwise`` are fields of its context."""
        return self.driver_in(replace(context(self.directory, text), **otherwise))

    def driver_in(self, made: DriverContext) -> LibvirtDriver:
        return LibvirtDriver(made, host=self.connection())

    def close(self) -> None:
        self.binding.release()
        for each in self.connections:
            each.close()
