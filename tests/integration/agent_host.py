"""A host on disk: its configuration, its script for the scripted driver, and its commands."""

import io
import json
import os
import sys
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self
from unittest import mock

from computectl.app import ComputeCtl
from tests.kit.installed import install
from tests.servers.process import completed

DOWN_AFTER = 3600
"""Seconds: who was up stays up, however long the commands take."""
CONFIGURATION = """\
[DEFAULT]
host = {host}
state_path = {directory}/state
compute_driver = {driver}
[placement]
auth_type = admin_token
endpoint = {url}
token = {token}
[fake]
script = {directory}/script.yaml
{more}
"""


def gpus_on_children(vcpus: int, vgpus: int) -> str:
    """A script in which two GPUs have the VGPUs that were the root's: a reshape."""
    card = f"{{inventory: {{VGPU: {vgpus}}}}}"
    return f"""
nodes:
  "{{host}}":
    inventory: {{VCPU: {vcpus}}}
    children: {{gpu0: {card}, gpu1: {card}}}
"""


@dataclass(frozen=True)
class Said:
    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def text(self) -> str:
        """What was printed, without the breaks where a line is as wide as the screen."""
        return " ".join(self.out.split())


def one_line(said: Said, code: int, *, out: bool = False) -> str:
    """Return the error of a failed command: one line, with its next step.

    ``out``: whether the command has printed a result, too.
    """
    assert said.code == code, said
    assert bool(said.out) is out, said
    assert said.err.count("\n") == 1, said.err
    assert said.err.startswith("computectl: ")
    assert "; " in said.err
    return said.err


@dataclass
class AgentHost:
    """Commands run as processes of their own, with a terminal's width but no terminal."""

    directory: Path
    url: str
    host: str = "host1"

    @property
    def config(self) -> Path:
        return self.directory / "agent.conf"

    @property
    def site(self) -> Path:
        """Where drivers of tests are installed."""
        return self.directory / "site"

    @property
    def compute_id(self) -> Path:
        return self.directory / "state" / "compute_id"

    def configure(self, *, driver: str = "fake", token: str = "admin", more: str = "") -> None:
        text = CONFIGURATION.format(
            host=self.host,
            directory=self.directory,
            driver=driver,
            url=self.url,
            token=token,
            more=more,
        )
        self.config.write_text(text)

    @classmethod
    def configured(cls, directory: Path, url: str) -> Self:
        """A host with its configuration and nothing else."""
        host = cls(directory, url)
        host.configure()
        return host

    def install_driver(self, name: str, source: str) -> None:
        """Install a driver for this host's commands, and configure it."""
        install(self.site, name, source)
        self.configure(driver=name)

    def join_fleet(self, bus: str) -> None:
        """Have its commands call the registry on this message bus."""
        self.configure(
            more=f"[registry]\naccess = rpc\nservice_down_time = {DOWN_AFTER}\n"
            f"[DEFAULT]\ntransport_url = {bus}"
        )

    def script(self, text: str) -> None:
        (self.directory / "script.yaml").write_text(text)

    def report(self, script: str) -> None:
        """Have the agent report once what this script says."""
        self.script(script)
        assert self.agent().code == 0

    def agent(self, *args: str) -> Said:
        return self._run("agent.main", "--config-file", str(self.config), "--once", *args)

    def ctl(self, *args: str, **environ: str) -> Said:
        return self.bare_ctl("--config-file", str(self.config), *args, **environ)

    def bare_ctl(self, *args: str, **environ: str) -> Said:
        return self._run("computectl.app", *args, **environ)

    def _run(self, module: str, *args: str, **environ: str) -> Said:
        code = f"from {module} import main; main()"
        env = {"COLUMNS": "80", "PYTHONIOENCODING": "utf-8", **environ}
        if self.site.exists():
            env.setdefault("PYTHONPATH", str(self.site))
        done = completed(sys.executable, "-c", code, *args, env={**os.environ, **env})
        return Said(done.returncode, done.stdout, done.stderr)


@dataclass
class Here(AgentHost):
    """A host whose commands run in this process, as wide as a pipe: a tenth of the cost.

    For tests that run many commands and are about what those say; that they run as processes,
    ``test_computectl`` shows.
    """

    def ctl(self, *args: str, **environ: str) -> Said:
        out, err = io.StringIO(), io.StringIO()
        width = mock.patch.dict("os.environ", {"COLUMNS": "80", **environ})
        with width, redirect_stdout(out), redirect_stderr(err):
            try:
                code = ComputeCtl().run(["--config-file", str(self.config), *args])
            except SystemExit as end:  # argparse
                code = int(end.code or 0)
        return Said(code, out.getvalue(), err.getvalue())
