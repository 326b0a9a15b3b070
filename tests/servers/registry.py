"""compute-registry as a process of its own, and an agent's side of the RPC in this one."""

import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from pathlib import Path

from agent.bus.messaging import Target
from agent.bus.server import RpcServer
from tests.registries import FILE
from tests.servers.agent import REPOSITORY
from tests.servers.process import Server, end, launched, wait_for

_OURS = re.compile(rf'File "{re.escape(str(REPOSITORY))}/(agent|compute_registry)/')
START = "from compute_registry.service import main; main()"


class RegistryProcess(Server):
    """``more`` are lines of the group [registry], and of groups after it."""

    def __init__(
        self,
        directory: Path,
        *,
        transport_url: str = "",
        more: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self._environment = {**os.environ, **(environment or {})}
        self.may_log_tracebacks = False
        self.code = START
        self.config = directory / "registry.conf"
        directory.mkdir(exist_ok=True)
        defaults = "" if "master_key" in more else "unsigned_calls = true\n"
        if "connection = " not in more:
            defaults += f"connection = sqlite:///{directory}/{FILE}\n"
        self.config.write_text(
            f"[DEFAULT]\nstate_path = {directory}\ntransport_url = {transport_url}\n"
            f"[registry]\n{defaults}{more}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def start(self, says: str = "Serving the service records", timeout: float = 120.0) -> None:
        """Start it and wait until its log says that."""
        command = [sys.executable, "-c", self.code, "--config-file", str(self.config)]
        self._process = launched(command, self.directory / "log", "wb", env=self._environment)
        self.wait_for(lambda: says in self.log, timeout)

    def wait_for(self, done: Callable[[], bool], timeout: float = 60.0) -> None:
        assert self._process is not None
        wait_for(done, self._process, lambda: self.log, timeout)

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    def kill9(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)

    def stop(self, timeout: float = 120.0) -> int | None:
        """SIGTERM; its exit code, ``None`` if it was not running or had to be killed.

        Whatever a test did to it: a traceback of this source in its log is a fault, unless it may.
        """
        process, self._process = self._process, None
        code = end(process, seconds=timeout)
        if process is not None and not self.may_log_tracebacks:
            assert not _OURS.search(self.log), self.log[-6000:]
        return code


class RecordingAgent:
    """An agent's RPC endpoint that notes what it is asked."""

    target = Target(version="5.13")

    def __init__(self) -> None:
        self.asked: list[bool] = []

    def set_host_enabled(self, _context: dict[str, object], enabled: bool) -> str:
        self.asked.append(enabled)
        return "enabled" if enabled else "disabled"


def recording_agent(transport: object, host: str) -> tuple[RecordingAgent, RpcServer]:
    agent = RecordingAgent()
    target = Target(exchange="nova", topic="compute", server=host)
    server = RpcServer(transport, target, [agent])
    server.start()
    assert server.serving.wait(60)
    return agent, server


def fetch(
    url: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers in lower case, body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=180) as answer:
            return answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as err:
        return err.code, {k.lower(): v for k, v in err.headers.items()}, err.read()
