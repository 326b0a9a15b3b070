"""Host: what can be asked of this machine and its libvirt, in bounded time.

The only module that imports libvirt.  Answers are plain documents and values; the
pure modules beside this one make sense of them.  Every question ends by its
deadline: with an answer, or with ``DriverNotReady`` that says what was asked of
which URI and what libvirt said.  A connection that was lost is opened again by the
next question; while libvirtd is down, one attempt a second is made.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

from drivers.errors import DriverLoadFailed, DriverNotReady
from drivers.libvirt.connection.aside import Aside
from drivers.libvirt.connection.events import Events
from drivers.libvirt.connection.host_files import (
    bytes_of_files,
    capacity_of,
    cells_of_cpus,
    file_system_size,
    namespace_names,
    switch_of,
)
from drivers.libvirt.connection.lane import Blocked, Lane, Overdue
from drivers.libvirt.connection.listed import Listed, active_pools, guests, node_devices
from drivers.libvirt.connection.session import Deadlines, NotTried, Refused, Session, Unconnected
from drivers.libvirt.connection.watch import Tell, Watch
from drivers.libvirt.devices.pci_devices import too_little as device_lacks
from drivers.libvirt.documents import checked
from drivers.libvirt.facts import block
from drivers.libvirt.facts.disk import too_little as pool_lacks

LOG = logging.getLogger(__name__)

PAUSE = 1.0
"""Seconds at least between attempts to connect."""

ALL_CELLS = -1
"""VIR_NODE_MEMORY_STATS_ALL_CELLS, which older bindings do not name."""

T = TypeVar("T")


def load_binding() -> Any:
    """The libvirt module, with its event loop running.

    :raises DriverLoadFailed: libvirt-python is not installed.
    """
    try:
        import libvirt  # noqa: PLC0415  # optional: only this driver's hosts need it
    except ImportError as err:
        raise DriverLoadFailed(
            f"the libvirt driver needs libvirt-python: install compute-agent[libvirt] ({err})"
        ) from err
    _run_event_loop(libvirt)
    return libvirt


@functools.cache  # libvirt has one loop for the whole process, and it never ends
def _run_event_loop(binding: Any) -> None:
    """Keepalive is sent and checked by libvirt's event loop; it has to be registered
    before the first connection is opened.
    """

    def run() -> None:
        while True:
            try:
                binding.virEventRunDefaultImpl()
            except binding.libvirtError:
                LOG.exception("libvirt's event loop")
                time.sleep(1)

    # We log errors ourselves; libvirt would print them to stderr as well.
    binding.registerErrorHandler(lambda _context, _error: None, None)
    binding.virEventRegisterDefaultImpl()
    threading.Thread(target=run, name="libvirt-events", daemon=True).start()


class _NothingOpen:
    """The session of a lane that only reads files."""

    def close(self) -> None:
        """Nothing to close."""


class Host:
    """One libvirt, supervised, and the file systems below ``root``."""

    def __init__(
        self,
        uri: str,
        binding: Any,
        deadlines: Deadlines,
        root: Path = Path("/"),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.uri = uri
        self._root = root
        self._clock = clock
        self._deadlines = deadlines
        self._lane = Lane("libvirt", self._session, clock)
        # A file server that hangs must not keep us from asking libvirt.
        self._files = Lane("host-files", _NothingOpen, clock)
        self._binding = binding
        self._not_before = 0.0
        self._last_problem = ""
        self._unanswered: dict[str, str] = {}
        self._watch: Watch | None = None
        self.events = Events()
        self._pools = self._aside("libvirt-pools")
        self._devices = self._aside("libvirt-devices")

    def watch(self, tell: Tell, probe: Callable[[], object] | None = None) -> None:
        """From now on ``tell`` hears when libvirt is lost (why) and when it is back (``None``).

        ``probe`` asks whether it is back, and raises ``DriverNotReady`` while it is not.
        """
        self._watch = Watch(probe or self.hostname, tell)
        self._watch.start()

    def lost(self, why: str) -> None:
        """What answers is not to be believed; whoever watches is told."""
        if self._watch is not None:
            self._watch.lost(why)

    def close(self) -> None:
        """Close the connection, in bounded time."""
        if self._watch is not None:
            self._watch.stop()
        self.events.stop()
        self._lane.close(self._deadlines.connect)
        self._pools.close()
        self._devices.close()
        self._files.close(self._deadlines.connect)

    def unanswered(self) -> dict[str, str]:
        """Optional questions that libvirt could not answer, with its words."""
        return dict(self._unanswered)

    # -- what a report can't do without

    def hostname(self) -> str:
        """The host's name as its libvirt gives it."""
        return self._ask("its host name", lambda c: _some(str(c.getHostname()), "name"))

    def capabilities(self) -> str:
        """The capabilities document, with hugepages and CPUs as they are now."""
        return self._ask(
            "capabilities", lambda c: checked(str(c.getCapabilities()), "capabilities")
        )

    def cpu_map(self) -> tuple[bool, ...] | None:
        """Of each CPU that is there, by its number, whether it is online; ``None``: this
        hypervisor never says.
        """
        try:
            return self._ask("the CPU map", lambda c: _some_on(c.getCPUMap()[1]))
        except Refused as err:
            if err.unsupported:
                return None
            raise

    def cpu_count(self) -> int:
        """Online CPUs, by number only."""
        return self._ask("node info", lambda c: _some(int(c.getInfo()[2]), "CPU"))

    def memory_kib(self) -> int:
        """Memory of the host in KiB.

        Node info and the NUMA cells are no use here: on machines that initialise
        memory lazily they grow for hours.  Only drivers without memory statistics
        are asked for them.
        """
        try:
            return self._ask("memory", lambda c: _some(_total(c), "memory"))
        except Refused as err:
            if not err.unsupported:
                raise
        return self._ask("node info", lambda c: _some(int(c.getInfo()[1]), "memory")) * 1024

    def file_system_bytes(self, path: Path) -> int:
        """Size of the file system that holds ``path``, or would if it were made."""
        place = self._root / path.relative_to(path.anchor)
        return self._on_files(
            f"the size of the file system of {path}", lambda: file_system_size(place)
        )

    def cached_bytes(self, cache: Path, instances: Path) -> int:
        """What cached images take of the disk that guests' disks are on."""
        places = (self._root / path.relative_to(path.anchor) for path in (cache, instances))
        return self._on_files(f"the size of images in {cache}", lambda: bytes_of_files(*places))

    def file_system_spins(self, path: Path) -> bool | None:
        """Whether the disk below ``path`` rotates; ``None``: it can't be told."""
        return self._on_files(
            f"the disk of {path}",
            lambda: _unless_hidden(lambda: block.file_system_spins(self._root, path)),
        )

    def devices_spin(self, devices: Iterable[str]) -> tuple[bool | None, ...]:
        """The same of each disk, given as /dev/sda."""
        return self._on_files(
            "disks",
            lambda: tuple(
                _unless_hidden(lambda one=one: block.device_spins(self._root, one))  # type: ignore[misc]
                for one in devices
            ),
        )

    def pmem_namespaces(self) -> frozenset[str]:
        """Names of the persistent memory namespaces; those without a name do not count."""
        devices = self._root / "sys/bus/nd/devices"
        return self._on_files("persistent memory namespaces", lambda: namespace_names(devices))

    def cells_of_cpus(self, cpus: Iterable[int]) -> dict[int, int]:
        """NUMA cells by CPU, of those whose cell the kernel knows."""
        system = self._root / "sys/devices/system/cpu"
        return self._on_files("NUMA cells of CPUs", lambda: cells_of_cpus(system, cpus))

    # -- what it can do without

    def storage_pools(self) -> Listed:
        """All active storage pools; none from a libvirt without storage."""
        try:
            return self._pools.ask(
                "storage pools", lambda c: active_pools(c, self._binding, pool_lacks)
            )
        except Refused as err:
            if err.unsupported:
                return Listed()
            raise

    def guests(self) -> Listed:
        """All guests, running or not."""
        return self._devices.ask("the guests", lambda c: guests(c, self._binding))

    def node_devices(self, kinds: Sequence[str]) -> Listed:
        """Those of these kinds, none where this hypervisor has none to tell of."""
        try:
            return self._devices.ask(
                "node devices", lambda c: node_devices(c, self._binding, kinds, device_lacks)
            )
        except Refused as err:
            if err.unsupported:
                return Listed()
            raise

    def kernel_switch(self, module: str, parameter: str) -> bool | None:
        """A parameter of a module that is on or off; ``None``: there is no such one."""
        file = self._root / "sys/module" / module / "parameters" / parameter
        return self._on_files(f"{parameter} of {module}", lambda: switch_of(file))

    def misc_capacity(self, resource: str) -> int | None:
        """How many there are of one of the kernel's miscellaneous resources."""
        file = self._root / "sys/fs/cgroup/misc.capacity"
        return self._on_files(f"{resource} of {file.name}", lambda: capacity_of(file, resource))

    def expanded_cpu(self, cpu: str, name: str) -> str | None:
        """A <cpu> document with all features of its model, ``name``, written out."""
        flag = self._binding.VIR_CONNECT_BASELINE_CPU_EXPAND_FEATURES
        return self._ask_optional(
            f"the features of {name}",
            lambda c: checked(str(c.baselineCPU([cpu], flag)), "cpu"),
            once=True,
        )

    def versions(self) -> tuple[int, int] | None:
        """Of libvirt and of its hypervisor, as 8007000 for 8.7.0; ``None``: it has none."""
        try:
            return self._ask("versions", lambda c: (int(c.getLibVersion()), int(c.getVersion())))
        except Refused as err:
            if err.unsupported:
                return None
            raise

    def cpu_models(self, arch: str) -> tuple[str, ...]:
        """Names of the CPU models that libvirt knows of an architecture."""
        names = self._ask_optional(
            f"CPU models of {arch}", lambda c: tuple(map(str, c.getCPUModelNames(arch))), once=True
        )
        return names or ()

    def domain_capabilities(
        self, arch: str, virt_type: str, machine: str | None = None
    ) -> str | None:
        """What guests of an architecture can have; needs a read-write connection."""
        on = f"{machine}, {virt_type}" if machine else virt_type
        return self._ask_optional(
            f"domain capabilities of {arch} on {on}",
            lambda c: checked(
                str(c.getDomainCapabilities(None, arch, machine, virt_type, 0)),
                "domainCapabilities",
            ),
        )

    # -- how questions are asked

    def _ask(self, what: str, question: Callable[[Any], T], *, once: bool = False) -> T:
        """Ask now, or once per connection.  :raises DriverNotReady: no answer, and why."""
        try:
            self._ensure_connected()
            answer = self._bounded(
                what,
                lambda session: (session.ask_once if once else session.ask)(what, question),
            )
        except (NotTried, Refused):
            raise  # neither says that libvirt is lost
        except DriverNotReady as err:
            self.lost(str(err))
            raise
        return answer

    def _session(self) -> Session:
        return Session(self._binding, self.uri, self._deadlines, self._note_closed, self.events)

    def _aside(self, name: str) -> Aside:
        """A connection of its own, which nobody is told of."""
        lane = Lane(name, lambda: Session(self._binding, self.uri, self._deadlines), self._clock)
        return Aside(lane, self.uri, self._deadlines, self._ensure_connected)

    def _note_closed(self, why: str) -> None:
        """In libvirt's event loop."""
        self.events.closed()
        self.lost(f"the connection to libvirt at {self.uri} was lost: {why}")

    def _ask_optional(
        self, what: str, question: Callable[[Any], T], *, once: bool = False
    ) -> T | None:
        """``None`` where libvirt answers with an error; logged once, asked again next time."""
        try:
            answer = self._ask(what, question, once=once)
        except Refused as err:
            if what not in self._unanswered:
                LOG.log(logging.INFO if err.unsupported else logging.WARNING, "%s", err)
            self._unanswered[what] = str(err)
            return None
        self._unanswered.pop(what, None)
        return answer

    def _ensure_connected(self) -> None:
        if self._clock() < self._not_before:
            raise DriverNotReady(self._last_problem)
        try:
            new = self._bounded("a connection", Session.ensure_open, self._deadlines.connect)
        except Unconnected as err:
            self._not_before, self._last_problem = self._clock() + PAUSE, str(err)
            raise
        if new:
            self._unanswered.clear()

    def _bounded(self, what: str, job: Callable[[Session], T], deadline: float | None = None) -> T:
        try:
            return self._lane.call(what, job, deadline or self._deadlines.call)
        except Overdue as err:
            raise DriverNotReady(f"libvirt at {self.uri}, asked for {what}: {err}") from None
        except Blocked as err:
            raise NotTried(f"libvirt at {self.uri}: {err}") from None

    def _on_files(self, what: str, job: Callable[[], T]) -> T:
        try:
            return self._files.call(what, lambda _: job(), self._deadlines.call)
        except (Overdue, Blocked) as err:
            raise DriverNotReady(f"{what}: {err}") from None


def _total(connection: Any) -> int:
    return int(connection.getMemoryStats(ALL_CELLS, 0)["total"])


def _some(answer: T, what: str) -> T:
    """:raises ValueError: none; a host that answers has some."""
    if not answer:
        raise ValueError(f"no {what}")
    return answer


def _some_on(cpus: Sequence[Any]) -> tuple[bool, ...]:
    """An empty map is one that this hypervisor does not keep."""
    found = tuple(map(bool, cpus))
    if found and not any(found):
        raise ValueError("a CPU map without any CPU that is online")
    return found


def _unless_hidden(look: Callable[[], T]) -> T | None:
    """``None`` where the kernel's files are not to be had: that disk can't be told."""
    try:
        return look()
    except OSError:
        return None
