"""Measure an agent's memory, and its CPU time from the start to the first call to Placement.

    python -m benchmarks.footprint [--transport-url URL] [--reference PYTHON] [--settle SECONDS]

Prints a row for each configuration, with a Placement that is started for it.  With the URL of a
broker also those that need one; with the interpreter of an environment that has nova, also
nova-compute with its modules loaded before it has done anything.  With both, also the running
nova-compute, with its fake driver and a conductor of its own.  RSS counts shared pages in full, PSS
proportionally.  All modules are compiled before the measurement, as in an installation.
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
class Configuration:
    """A configuration of an agent; ``options`` are lines of [DEFAULT], then further groups."""

    name: str
    options: str = ""
    starts: int = 1
    """The start that is measured: the first one also creates the registry's file."""
    driver: str = "compute_driver = fake\n"


@dataclass(slots=True)
class Proxy:
    """A proxy between the agent and Placement, which detects the first call."""

    to: tuple[str, int]
    first: threading.Event = field(default_factory=threading.Event)
    port: int = 0

    def open(self) -> None:
        """Start to listen in a thread."""
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
    """Measure and print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.footprint")
    parser.add_argument("--transport-url", metavar="URL", help="transport URL of a RabbitMQ")
    parser.add_argument(
        "--reference", metavar="PYTHON", help="interpreter of an environment with nova"
    )
    parser.add_argument("--settle", type=float, default=5.0, metavar="SECONDS")
    options = parser.parse_args(argv)
    with tempfile.TemporaryDirectory() as directory_of_all:
        server = PlacementServer(Path(directory_of_all) / "placement")
        server.start()
        try:
            bench = Bench(server, Path(directory_of_all))
            configurations = _configurations(options.transport_url)
            bench.start(configurations[0], "compiled", 0.0)
            print(f"{'configuration':44} {'RSS MiB':>8} {'PSS MiB':>8} {'CPU s':>7}")
            for configuration in configurations:
                for _ in range(configuration.starts):
                    measured = bench.start(configuration, configuration.name, options.settle)
                _print_row(configuration.name, measured)
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
    print(f"{name:44} {rss:8.1f} {pss:8.1f} {cpu:7.2f}", flush=True)


def _configurations(url: str | None) -> list[Configuration]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    libvirt = "compute_driver = libvirt\n"
    configurations = [
        Configuration("own registry, first start"),
        Configuration("own registry, later start", starts=2),
        Configuration(
            "own registry, with metrics", f"[monitoring]\nlisten_port = {port}\n", starts=2
        ),
        Configuration("attached to another service's root", "[compute]\nroot_provider = attach\n"),
    ]
    if importlib.util.find_spec("libvirt"):
        test = "[libvirt]\nconnection_uri = test:///default\n"
        configurations.append(
            Configuration("own registry, libvirt (its test driver)", test, 2, libvirt)
        )
    if url:
        bus = f"transport_url = {url}\n"
        configurations.append(Configuration("own registry, RabbitMQ", bus, starts=2))
        configurations.append(
            Configuration("registry over RPC, RabbitMQ", f"{bus}[registry]\naccess = rpc\n", 2)
        )
    return configurations


@dataclass(frozen=True, slots=True)
class Bench:
    """Starts agents that report to one Placement, each in a directory of its own."""

    server: PlacementServer
    directory_of_all: Path

    def start(self, configuration: Configuration, name: str, settle: float) -> Measured:
        """Start an agent, measure it and stop it."""
        proxy = self._start_proxy()
        process = subprocess.Popen(
            [
                *COMMAND,
                "--config-file",
                str(self._config_file(configuration, self.directory_of_all / name, proxy)),
            ],
            cwd=REPOSITORY,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
        )
        return _measured(configuration.name, process, proxy, settle)

    def serve(self, reference: str, bus: str, settle: float) -> Measured:
        """Start nova-compute with a conductor, measure it and stop it."""
        nova = Nova(reference, self.directory_of_all / "nova", bus, self.server.token)
        nova.prepare()
        proxy = self._start_proxy()
        with nova.conductor():
            process = nova.compute(f"http://127.0.0.1:{proxy.port}")
            return _measured("nova-compute", process, proxy, settle)

    def _start_proxy(self) -> Proxy:
        placement = urlsplit(self.server.url)
        proxy = Proxy((str(placement.hostname), int(placement.port or 80)))
        proxy.open()
        return proxy

    def load(self, reference: str) -> Measured:
        """Load nova-compute's modules and measure that: a lower bound for the running service."""
        process = subprocess.Popen(
            [reference, "-W", "ignore", "-c", REFERENCE],
            cwd=self.directory_of_all,
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
        """Return the environment: modules are compiled once, as in an installation."""
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(self.directory_of_all / "modules")}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return environment

    def _config_file(self, configuration: Configuration, directory: Path, proxy: Proxy) -> Path:
        directory.mkdir(exist_ok=True)
        (directory / "script.yaml").write_text(SCRIPT, encoding="utf-8")
        if "attach" in configuration.options:
            self._foreign_root(directory / "state")
        path = directory / "agent.conf"
        path.write_text(
            f"[DEFAULT]\nhost = host1\nstate_path = {directory}/state\n{configuration.driver}"
            f"periodic_fuzzy_delay = 0\n{configuration.options}"
            f"[fake]\nscript = {directory}/script.yaml\n"
            f"[placement]\nauth_type = admin_token\ntoken = {self.server.token}\n"
            f"endpoint = http://127.0.0.1:{proxy.port}\n",
            encoding="utf-8",
        )
        return path

    def _foreign_root(self, state: Path) -> None:
        """Write the ``compute_id`` of nova-compute."""
        state.mkdir(exist_ok=True)
        (state / "compute_id").write_text(f"{uuid.uuid4()}\n", encoding="ascii")


def _measured(name: str, process: subprocess.Popen[bytes], proxy: Proxy, settle: float) -> Measured:
    """Measure a process and end it."""
    try:
        if not proxy.first.wait(FIRST_CALL_WITHIN):
            raise SystemExit(f"{name}: no call to Placement within {FIRST_CALL_WITHIN:g} s")
        cpu = _cpu_seconds(process.pid)
        time.sleep(settle)
        if process.poll() is not None:
            raise SystemExit(f"{name} ended with exit code {process.returncode}")
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
