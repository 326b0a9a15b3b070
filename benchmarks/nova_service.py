"""Runs the real nova-compute with its fake driver, and a conductor, for other benchmarks."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

CONFIGURATION = """\
[DEFAULT]
host = nova1
my_ip = 127.0.0.1
state_path = {directory}/state
transport_url = {bus}
compute_driver = fake.FakeDriver
[database]
connection = {database}
[api_database]
connection = {api_database}
[conductor]
workers = 1
[placement]
auth_type = admin_token
endpoint = {placement}
token = {token}
[oslo_concurrency]
lock_path = {directory}/lock
"""


@dataclass(frozen=True, slots=True)
class Nova:
    """A nova-compute; ``python`` is the interpreter of an environment that has nova."""

    python: str
    directory: Path
    bus: str
    token: str
    databases: tuple[str, str] | None = None
    """URLs of the databases, of nova and of its API; by default SQLite."""
    libraries: str = ""
    """A directory with Python packages that the environment lacks."""

    def prepare(self) -> None:
        """Create its databases, which takes half a minute."""
        state = self.directory / "state"
        state.mkdir(parents=True)
        (state / "compute_id").write_text(f"{uuid.uuid4()}\n", encoding="ascii")
        config = self._configured("http://127.0.0.1:1")
        for command in (["api_db", "sync"], ["db", "sync", "--local_cell"]):
            subprocess.run(
                [self._program("nova-manage"), "--config-file", str(config), *command],
                env=self._environment(),
                capture_output=True,
                check=True,
            )

    @contextmanager
    def conductor(self) -> Iterator[int]:
        """Run a conductor within this context; nova-compute waits until it answers.

        Yields its process id.
        """
        process = self._start("nova-conductor", "http://127.0.0.1:1")
        try:
            yield process.pid
        finally:
            process.terminate()
            process.wait()

    def compute(self, placement: str) -> subprocess.Popen[bytes]:
        """Start nova-compute; the caller has to end the process."""
        return self._start("nova-compute", placement)

    def _start(self, name: str, placement: str) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("wb") as log:
            return subprocess.Popen(
                [self._program(name), "--config-file", str(self._configured(placement))],
                env=self._environment(),
                stdout=log,
                stderr=log,
            )

    def _configured(self, placement: str) -> Path:
        path = self.directory / "nova.conf"
        default = tuple(f"sqlite:///{self.directory}/{name}.sqlite" for name in ("nova", "api"))
        database, api_database = self.databases or default
        path.write_text(
            CONFIGURATION.format(
                directory=self.directory,
                bus=self.bus,
                placement=placement,
                token=self.token,
                database=database,
                api_database=api_database,
            ),
            encoding="utf-8",
        )
        return path

    def _program(self, name: str) -> str:
        return str(Path(self.python).with_name(name))

    def _environment(self) -> dict[str, str]:
        ours = ("PYTHONPATH", "PYTHONDONTWRITEBYTECODE")
        kept = {name: value for name, value in os.environ.items() if name not in ours}
        return kept | ({"PYTHONPATH": self.libraries} if self.libraries else {})
