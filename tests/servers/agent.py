"""The real ``compute-agent`` as a process of its own, for tests."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.installed import SICK, install
from tests.servers.process import completed, launched
from tests.waiting import eventually

COMMAND = [sys.executable, "-c", "from agent.main import main; main()"]
REPOSITORY = Path(__file__).resolve().parents[2]
SCRIPT = "nodes: {testhost: {inventory: {VCPU: 4, MEMORY_MB: 2048}}}\n"


@dataclass
class AgentProcess:
    """``directory`` gets its configuration, its script, its state and its log."""

    directory: Path
    placement_url: str
    script: str = SCRIPT
    options: str = "update_resources_interval = 1\nperiodic_fuzzy_delay = 0\n"
    """Lines of ``[DEFAULT]``, and whole groups after them."""
    host: str = "testhost"
    compute_driver: str = "fake"
    environment: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None
    prefix: tuple[str, ...] = ()
    """What starts it, if not we do."""

    @property
    def config(self) -> Path:
        return self.directory / "agent.conf"

    @property
    def state_path(self) -> Path:
        return self.directory / "state"

    @property
    def log(self) -> str:
        """All that it said so far, over all its starts."""
        path = self.directory / "log"
        return path.read_text() if path.exists() else ""

    def write(self, **fields: str) -> None:
        """Write the configuration as the fields are now, or are to be."""
        vars(self).update(fields)
        self.state_path.mkdir(parents=True, exist_ok=True)
        (self.directory / "script.yaml").write_text(self.script)
        self.config.write_text(
            f"[DEFAULT]\nhost = {self.host}\nstate_path = {self.state_path}\n"
            f"compute_driver = {self.compute_driver}\n{self.options}"
            f"[fake]\nscript = {self.directory / 'script.yaml'}\n"
            f"[placement]\nauth_type = admin_token\ntoken = admin\nendpoint = {self.placement_url}\n"
            "timeout = 120\n"  # a busy machine is no silent Placement
        )
        self.config.chmod(0o600)  # it has a token

    def add_drivers(self, site: Path) -> None:
        """Let the agent find the drivers of the packages in ``site``, as if pip installed them."""
        self.environment["PYTHONPATH"] = f"{self.whole_environment()['PYTHONPATH']}:{site}"
        self.environment["XDG_CACHE_HOME"] = str(site)  # stevedore's

    def make_sick(self, deed: str = "") -> None:
        """Let it report by the driver SICK, which does this, or what ``deed.py`` has by then."""
        self.add_drivers(install(self.directory / "site", "sick", SICK))
        self.compute_driver = "sick"
        (self.directory / "deed.py").write_text(deed)

    def once(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """``compute-agent --once`` to its end, with the configuration as it was written last."""
        if not self.config.exists():
            self.write()
        command = (*COMMAND, "--config-file", self.config, "--once", *arguments)
        return completed(*command, env=self.whole_environment())

    def computectl(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A command beside it, to its end."""
        start = "from computectl.app import main; main()"
        return completed(sys.executable, "-c", start, "--config-file", self.config, *words)

    def start(self, *arguments: str) -> None:
        """Start it; it goes on until :meth:`stop` or :meth:`kill`, or as the arguments say."""
        if not self.config.exists():
            self.write()
        command = [*self.prefix, *COMMAND, "--config-file", str(self.config), *arguments]
        self.process = launched(command, self.directory / "log", env=self.whole_environment())

    def send(self, signum: int) -> None:
        assert self.process is not None
        self.process.send_signal(signum)

    def stop(self, timeout: float = 120.0) -> int:
        """SIGTERM; its exit code."""
        self.send(signal.SIGTERM)
        assert self.process is not None
        return self.process.wait(timeout)

    def kill(self) -> None:
        """SIGKILL; nothing happens if it has ended."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)

    def until(self, condition: Callable[[], object], seconds: float = 60.0) -> None:
        """Wait for something that the running agent shall bring about."""
        assert self.process is not None
        eventually(condition, seconds, process=self.process, otherwise=lambda: self.log)

    def until_logged(self, text: str, times: int = 1, seconds: float = 60.0) -> None:
        self.until(lambda: self.log.count(text) >= times, seconds)

    def until_reported(self, seconds: float = 60.0) -> None:
        """Wait for the end of its first period."""
        self.until(self.has_reported, seconds)

    def has_reported(self) -> bool:
        """Whether ``status.json`` has a node: there is one from the start of the agent on."""
        path = self.state_path / "status.json"
        return path.exists() and bool(json.loads(path.read_text())["nodes"])

    def __enter__(self) -> AgentProcess:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def whole_environment(self) -> dict[str, str]:
        ours = {"PYTHONPATH": str(REPOSITORY), **self.environment}
        return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **ours}
