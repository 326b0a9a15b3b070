"""What an agent takes of its host: memory when it has settled, CPU from exec to the first call.

    python -m benchmarks.footprint [--transport-url URL] [--reference PYTHON] [--settle SECONDS]

A row for each way of running, against a Placement that is started for it. With the URL of a
broker, those that need one too; with the interpreter of an environment that has nova, what
nova-compute has when its modules are loaded and it has done nothing yet.  With both, the running
nova-compute as well, with its fake driver and a conductor of its own.  RSS counts shared
pages whole, PSS by the share.  Modules are compiled before anything is measured, as an
installation has them.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from benchmarks.compare import REPOSITORY
from benchmarks.nova_service import Nova
from driverkit.placement.server import PlacementServer

SCRIPT = "nodes: {host1: {inventory: {VCPU: 4, MEMORY_MB: 2048}}}\n"
Measured = tuple[float, float, float]
"""RSS and PSS in MiB, CPU in seconds."""

FIRST_CALL_WITHIN = 120.0
COMMAND = [sys.executable, "-c", "from agent.main import main; main()"]
REFERENCE = """
import sys
from nova.cmd import compute
from nova import objects
from nova.compute import manager
from nova.virt import fake
objects.register_all()
print("loaded", flush=True)
sys.stdin.read()
"""
TICKS = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class Way:
    """How an agent runs; ``options`` are lines of [DEFAULT], and groups after them."""

    name: str
    options: str = ""
    starts: int = 1
    """After so many starts it is measured: the first one makes the registry's file."""
    driver: str = "compute_driver = fake\n"


@dataclass(slots=True)
class Door:
    """Between the agent and Placement: sees the first call arrive."""

    to: tuple[str, int]
    first: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def open(self) -> None:
        """Listen, in a thread."""
        listening = socket.create_server(("127.0.0.1", 0))
        self.port = listening.getsockname()[1]
        threading.Thread(target=self._accept, args=[listening], daemon=True).start()

    def _accept(self, listening: socket.socket) -> None:
        while True:
            near, _ = listening.accept()
            self.first.set()
            far = socket.create_connection(self.to)
            for pair in ((near, far), (far, near)):
                threading.Thread(target=_pipe, args=pair, daemon=True).start()


def _pipe(source: socket.socket, sink: socket.socket) -> None:
    try:
        while data := source.recv(65536):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)
    except OSError:
        return


def main(argv: Sequence[str] | None = None) -> None:
    """Measure, and print."""
    parser = argparse.ArgumentParser(prog="benchmarks.footprint")
    parser.add_argument("--transport-url", metavar="URL", help="of a RabbitMQ")
    parser.add_argument("--reference", metavar="PYTHON", help="of an environment with nova")
    parser.add_argument("--settle", type=float, default=5.0, metavar="SECONDS")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as made:
        server = PlacementServer(Path(made) / "placement")
        server.start()
        try:
            bench = Bench(server, Path(made))
            ways = _ways(options.transport_url)
            bench.start(ways[0], "compiled", 0.0)
            print(f"{'way of running':44} {'RSS MiB':>8} {'PSS MiB':>8} {'CPU s':>7}")  # noqa: T201
            for way in ways:
                for _ in range(way.starts):
                    measured = bench.start(way, way.name, options.settle)
                _print_row(way.name, measured)
            if options.reference:
                bench.load(options.reference)  # compiles
                _print_row("nova-compute, only loaded", bench.load(options.reference))
            if options.reference and options.transport_url:
                measured = bench.serve(options.reference, options.transport_url, options.settle)
                _print_row("nova-compute, fake driver, RabbitMQ", measured)
        finally:
            server.stop()


def _print_row(name: str, measured: Measured) -> None:
    rss, pss, cpu = measured
    print(f"{name:44} {rss:8.1f} {pss:8.1f} {cpu:7.2f}", flush=True)  # noqa: T201


def _ways(url: str | None) -> list[Way]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    libvirt = "compute_driver = libvirt\n"
    ways = [
        Way("own registry, first start"),
        Way("own registry, later start", starts=2),
        Way("own registry, with metrics", f"[monitoring]\nlisten_port = {port}\n", starts=2),
        Way("attached to another service's root", "[compute]\nroot_provider = attach\n"),
    ]
    if importlib.util.find_spec("libvirt"):
        test = "[libvirt]\nconnection_uri = test:///default\n"
        ways.append(Way("own registry, libvirt (its test driver)", test, 2, libvirt))
    if url:
        bus = f"transport_url = {url}\n"
        ways.append(Way("own registry, RabbitMQ", bus, starts=2))
        ways.append(Way("registry over RPC, RabbitMQ", f"{bus}[registry]\naccess = rpc\n", 2))
    return ways


@dataclass(frozen=True, slots=True)
class Bench:
    """Starts agents on a Placement, each in a directory of its own."""

    server: PlacementServer
    made: Path

    def start(self, way: Way, name: str, settle: float) -> Measured:
        """RSS and PSS in MiB, CPU in seconds."""
        door = self._door()
        process = subprocess.Popen(  # noqa: S603  our own module
            [*COMMAND, "--config-file", str(self._configured(way, self.made / name, door))],
            cwd=REPOSITORY,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
        )
        return _measured(way.name, process, door, settle)

    def serve(self, reference: str, bus: str, settle: float) -> Measured:
        """Nova's service, with a conductor."""
        nova = Nova(reference, self.made / "nova", bus, self.server.token)
        nova.prepare()
        door = self._door()
        with nova.conductor():
            process = nova.compute(f"http://127.0.0.1:{door.port}")
            return _measured("nova-compute", process, door, settle)

    def _door(self) -> Door:
        there = urlsplit(self.server.url)
        door = Door((str(there.hostname), int(there.port or 80)))
        door.open()
        return door

    def load(self, reference: str) -> Measured:
        """Nova's modules, in an interpreter of their own: a lower bound of its service's."""
        process = subprocess.Popen(  # noqa: S603  the interpreter that was asked for
            [reference, "-W", "ignore", "-c", REFERENCE],
            cwd=self.made,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
        )
        with process:
            assert process.stdout is not None
            if not process.stdout.readline():
                raise SystemExit(f"{reference}: nova could not be loaded")
            return (*_memory_mib(process.pid), _cpu_seconds(process.pid))

    def _environment(self) -> dict[str, str]:
        """Modules are compiled once, as in an installation."""
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(self.made / "modules")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return environment

    def _configured(self, way: Way, directory: Path, door: Door) -> Path:
        directory.mkdir(exist_ok=True)
        (directory / "script.yaml").write_text(SCRIPT, encoding="utf-8")
        if "attach" in way.options:
            self._foreign_root(directory / "state")
        path = directory / "agent.conf"
        path.write_text(
            f"[DEFAULT]\nhost = host1\nstate_path = {directory}/state\n{way.driver}"
            f"periodic_fuzzy_delay = 0\n{way.options}[fake]\nscript = {directory}/script.yaml\n"
            f"[placement]\nauth_type = admin_token\ntoken = {self.server.token}\n"
            f"endpoint = http://127.0.0.1:{door.port}\n",
            encoding="utf-8",
        )
        return path

    def _foreign_root(self, state: Path) -> None:
        """What nova-compute made: the root, and the file that says which one it is."""
        state.mkdir(exist_ok=True)
        (state / "compute_id").write_text(f"{uuid.uuid4()}\n", encoding="ascii")


def _measured(name: str, process: subprocess.Popen[bytes], door: Door, settle: float) -> Measured:
    """And ended."""
    try:
        if not door.first.wait(FIRST_CALL_WITHIN):
            raise SystemExit(f"{name}: no call to Placement in {FIRST_CALL_WITHIN:g} s")
        cpu = _cpu_seconds(process.pid)
        time.sleep(settle)
        if process.poll() is not None:
            raise SystemExit(f"{name}: it ended, with {process.returncode}")
        return (*_memory_mib(process.pid), cpu)
    finally:
        process.terminate()
        process.wait()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _memory_mib(pid: int) -> tuple[float, float]:
    text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8")
    kib = {line.split(":")[0]: int(line.split()[1]) for line in text.splitlines()[1:]}
    return kib["Rss"] / 1024, kib["Pss"] / 1024


if __name__ == "__main__":
    main()
