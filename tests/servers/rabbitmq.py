"""A real RabbitMQ for tests: private, killable, gone when the test is."""

import os
import shutil
import signal
import socket
import subprocess
import tempfile
from contextlib import suppress
from pathlib import Path

from amqp.exceptions import NotFound
from kombu import Connection

from tests.servers.ports import free_port
from tests.servers.process import Server, completed, end, launched, wait_for

SERVERS = Path("/usr/lib/rabbitmq/lib")
CONFIGURATION = """\
listeners.tcp.1 = 127.0.0.1:{port}
log.file.level = warning
vm_memory_high_watermark.absolute = 512MB
disk_free_limit.absolute = 50MB
"""


def _server() -> Path | None:
    found = sorted(SERVERS.glob("rabbitmq_server-*/sbin/rabbitmq-server"))
    return found[-1] if found else None


def missing() -> str | None:
    """Why a private RabbitMQ can't run here, or ``None``."""
    if _server() is None or shutil.which("epmd") is None:
        return "rabbitmq-server is not installed"
    return None


class RabbitMQ(Server):
    """One broker with its own epmd, on free ports of the loopback address."""

    def __init__(self) -> None:
        self.port, self.distribution, self.epmd_port = free_port(), free_port(), free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="mq-", dir="/tmp"))
        self._epmd: subprocess.Popen[bytes] | None = None
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """For transport_url."""
        return f"rabbit://guest:guest@127.0.0.1:{self.port}/"

    def start(self, timeout: float = 120.0) -> None:
        """Start it, on the same port and data as before, and wait until it takes connections."""
        assert self.process is None or self.process.poll() is not None, "it runs already"
        self._prepare()
        env = self.environment()
        if self._epmd is None:
            self._epmd = self._child(["epmd", "-address", "127.0.0.1"], env)
        self.process = self._child([str(_server())], env)
        wait_for(self._answers, self.process, self._output, timeout)

    @property
    def pids(self) -> list[int]:
        """Its processes; each may have children."""
        return [each.pid for each in (self.process, self._epmd) if each is not None]

    def kill9(self) -> None:
        """SIGKILL to the broker; returns when it is gone."""
        broker, self.process = self.process, None
        assert broker is not None
        end(broker, signal.SIGKILL, group=True)

    def send(self, signum: signal.Signals) -> None:
        """To the broker and all that it started."""
        assert self.process is not None
        os.killpg(self.process.pid, signum)

    def control(self, *command: str) -> str:
        """What ``rabbitmqctl`` says."""
        # The one in the PATH becomes another user, who has not this broker's cookie.
        ctl = str(next(SERVERS.glob("rabbitmq_server-*/sbin/rabbitmqctl")))
        return completed(ctl, "--quiet", *command, env=self.environment(), check=True).stdout

    def empty(self, queue: str) -> None:
        """Throw away what nobody has fetched from it, such as a call of a killed process."""
        with Connection("127.0.0.1", port=self.port) as connection, suppress(NotFound):
            connection.default_channel.queue_purge(queue)

    def stop(self) -> None:
        """End it and forget its data."""
        for process in (self.process, self._epmd):
            end(process, group=True)
        self.process = self._epmd = None
        shutil.rmtree(self.directory, ignore_errors=True)

    def _output(self) -> str:
        return (self.directory / "out").read_text(errors="replace")[-2000:]

    def _prepare(self) -> None:
        for name in ("mnesia", "log", "home"):
            (self.directory / name).mkdir(exist_ok=True)
        text = CONFIGURATION.format(port=self.port)
        (self.directory / "rabbitmq.conf").write_text(text)
        (self.directory / "enabled_plugins").write_text("[].")

    def environment(self) -> dict[str, str]:
        here = self.directory
        ctl = str(free_port())  # of a range that all brokers of a machine share otherwise
        erlang = "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none"
        return {
            "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin",
            "LANG": "C.UTF-8",
            "HOME": str(here / "home"),
            "TMPDIR": str(here / "home"),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "ERL_EPMD_PORT": str(self.epmd_port),
            "RABBITMQ_CONF_ENV_FILE": "/dev/null",
            "RABBITMQ_CONFIG_FILE": str(here / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(here / "advanced.config"),
            "RABBITMQ_CTL_DIST_PORT_MIN": ctl,
            "RABBITMQ_CTL_DIST_PORT_MAX": ctl,
            "RABBITMQ_DIST_PORT": str(self.distribution),
            "RABBITMQ_MNESIA_BASE": str(here / "mnesia"),
            "RABBITMQ_LOG_BASE": str(here / "log"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(here / "enabled_plugins"),
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_PID_FILE": str(here / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": erlang,
        }

    def _child(self, command: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        own = {"env": env, "cwd": self.directory, "start_new_session": True}
        return launched(command, self.directory / "out", **own)

    def _answers(self) -> bool:
        """It greets once it is ready for clients: a wrong greeting gets its own back."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1) as sock:
            sock.settimeout(1)
            sock.sendall(b"AMQP\x00\x00\x00\x00")
            return sock.recv(8) == b"AMQP\x00\x00\x09\x01"
        return False
