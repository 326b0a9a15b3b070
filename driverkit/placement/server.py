"""A real Placement on this machine, for ``--dev``, the demo and the tests.

The openstack-placement package runs in a child process (``driverkit.placement.child``) on an
SQLite file, so that its memory, logging and global state are separate.  The child waits on a
pipe, and so ends whenever its parent ends.

It uses ``noauth2`` (the token is ``admin``) and listens on the loopback address only.
"""

import os
import select
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar, Self

TOKEN = "admin"  # noqa: S105  # noauth2 gives this user the admin role
START_TIMEOUT = 60.0
STOP_TIMEOUT = 5.0
_LOG_TAIL = 20


class PlacementServerError(RuntimeError):
    """The embedded Placement did not start; the message has the end of its log."""


class PlacementServer:
    """A Placement with its data in ``directory``, which is created if it does not exist.

    With ``port`` 0 a free port is chosen; a later :meth:`start` uses the same port.
    """

    token = TOKEN
    child: ClassVar[str] = "driverkit.placement.child"
    """The server's module; its arguments are the port and ``arguments``."""
    arguments: Sequence[str] = ()
    policy = '"placement:reshaper:reshape": "role:admin or role:service"\n'
    """Placement's default allows the reshaper to the role ``service`` only."""

    def __init__(self, directory: Path, port: int = 0) -> None:
        self.directory = directory
        self.port = port
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The URL of Placement, valid once it has started."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def database_url(self) -> str:
        """The SQLAlchemy URL of Placement's database."""
        return f"sqlite:///{self.directory.resolve() / 'placement.sqlite'}"

    @property
    def pid(self) -> int | None:
        """The process ID while the server runs, so that tests can stop or kill it."""
        if self._process is None or self._process.poll() is not None:
            return None
        return self._process.pid

    @property
    def log_path(self) -> Path:
        """The path of the server's output: its log and any traceback."""
        return self.directory / "placement.log"

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()

    def start(self, timeout: float = START_TIMEOUT) -> None:
        """Start the server and return when it answers.

        A running server is left as it is; one that died is started again.

        :raises PlacementServerError: the server ended, or did not answer within ``timeout``
            seconds.
        """
        if self.pid is not None:
            return
        self.stop()
        self._write_configuration()
        self._process = self._spawn()
        try:
            self.port = self._announced_port(time.monotonic() + timeout)
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop the server, if it runs; its data stay."""
        process, self._process = self._process, None
        if process is None:
            return
        process.terminate()
        with process:  # waits for it and closes its pipes
            try:
                process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()

    def _write_configuration(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        directory = self.directory.resolve()
        policy = directory / "policy.yaml"
        policy.write_text(self.policy)
        text = _CONFIGURATION.format(database=self.database_url, policy=policy)
        (directory / "placement.conf").write_text(text)

    def _spawn(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", self.child, str(self.port), *self.arguments]
        base = {key: it for key, it in os.environ.items() if not key.startswith("OS_PLACEMENT")}
        here = str(Path(__file__).resolve().parents[2])
        environment = {
            **base,
            "PYTHONPATH": os.pathsep.join(filter(None, [here, base.get("PYTHONPATH")])),
            "OS_PLACEMENT_CONFIG_DIR": str(self.directory.resolve()),
        }
        try:
            with self.log_path.open("ab") as log:
                return subprocess.Popen(  # our own module
                    command,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    env=environment,
                    start_new_session=True,  # Ctrl-C reaches only the parent, which stops it
                )
        except OSError as err:
            raise PlacementServerError(f"could not start the embedded Placement: {err}") from err

    def _announced_port(self, deadline: float) -> int:
        assert self._process is not None and self._process.stdout is not None
        rest = max(0.0, deadline - time.monotonic())
        if not select.select([self._process.stdout], [], [], rest)[0]:
            raise PlacementServerError(f"the embedded Placement did not come up\n{self._tail()}")
        line = self._process.stdout.readline()  # empty if the process has ended
        if not line.strip().isdigit():
            raise PlacementServerError(f"the embedded Placement ended at start\n{self._tail()}")
        return int(line)

    def _tail(self) -> str:
        lines = self.log_path.read_text(errors="replace").splitlines()[-_LOG_TAIL:]
        return "\n".join([f"(the end of {self.log_path})", *lines])


# sqlite_synchronous = false: tests do not wait for the disk; a power cut may lose data of a demo.
_CONFIGURATION = """\
[DEFAULT]
use_stderr = true
default_log_levels = placement=WARNING, oslo_policy=ERROR, alembic=WARNING
[api]
auth_strategy = noauth2
[placement_database]
connection = {database}
sync_on_startup = true
sqlite_synchronous = false
[oslo_policy]
policy_file = {policy}
"""
