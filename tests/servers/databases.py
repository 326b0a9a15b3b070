"""A real MariaDB for tests: private, killable, gone when the test is."""

import os
import pwd
import shutil
import signal
import subprocess
import tempfile
from contextlib import AbstractContextManager
from pathlib import Path

from tests.servers.ports import free_port
from tests.servers.process import (
    Server,
    children,
    completed,
    end,
    launched,
    suspended,
    wait_for,
    wait_until_gone,
)

PROGRAMS = ("mariadbd", "mariadb-install-db", "mariadb")
USER = "mysql"


def _program(name: str) -> str | None:
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin:/sbin")


class MariaDB(Server):
    """One server process of its own over a directory of its own."""

    def __init__(self, where: str = "/tmp") -> None:
        """``where``: ``/dev/shm`` for large schemas, which a disk takes minutes to create."""
        self.port = free_port()
        self.directory = Path(tempfile.mkdtemp(prefix="db-", dir=where))
        self._process: subprocess.Popen[bytes] | None = None

    @staticmethod
    def missing() -> str | None:
        """Why it can't run here, or ``None``."""
        lacking = [name for name in PROGRAMS if _program(name) is None]
        return f"not installed: {', '.join(lacking)}" if lacking else None

    def url(self, database: str) -> str:
        return f"mysql+pymysql://root@127.0.0.1:{self.port}/{database}"

    def create(self, database: str) -> str:
        """A new, empty database; its URL."""
        self.sql(f"CREATE DATABASE {database}")
        return self.url(database)

    def start(self, timeout: float = 120.0) -> None:
        assert self._process is None or self._process.poll() is not None, "it runs already"
        if not (self.directory / "data").exists():
            self._own()
            self._run(*self._initialise())
        own = {"env": self._environment(), **self._as_user()}
        self._process = launched(self._serve(), self.directory / "log", **own)
        wait_for(self._answers, self._process, self._log, timeout)

    @property
    def pid(self) -> int | None:
        return None if self._process is None else self._process.pid

    def kill9(self) -> None:
        """SIGKILL; returns when it is gone, with what it had started."""
        assert self._process is not None
        helpers = children(self._process.pid)
        end(self._process, signal.SIGKILL)
        wait_until_gone(helpers)

    def hung(self) -> AbstractContextManager[None]:
        """It keeps its connections, and answers nothing, until the end of the block."""
        assert self._process is not None
        return suspended(self._process.pid)

    def stop(self) -> None:
        """End it and forget its data."""
        process, self._process = self._process, None
        end(process, signal.SIGTERM)
        shutil.rmtree(self.directory, ignore_errors=True)

    def _log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")[-2000:]

    def _initialise(self) -> list[str]:
        return [
            _program("mariadb-install-db"),
            "--no-defaults",
            f"--datadir={self.directory}/data",
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
            "--skip-name-resolve",
        ]

    def _serve(self) -> list[str]:
        return [
            _program("mariadbd"),
            "--no-defaults",
            f"--datadir={self.directory}/data",
            f"--socket={self.directory}/s",
            f"--pid-file={self.directory}/pid",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            "--skip-name-resolve",
            "--skip-log-bin",
            "--innodb-flush-log-at-trx-commit=2",
        ]

    def _client(self) -> list[str]:
        return [
            *(_program("mariadb"), "--no-defaults", "-h", "127.0.0.1", "-P", str(self.port)),
            *("-u", "root", "-e"),
        ]

    def sql(self, text: str) -> str:
        return self._run(*self._client(), text)

    def _answers(self) -> bool:
        done = subprocess.run([*self._client(), "SELECT 1"], capture_output=True, check=False)
        return done.returncode == 0

    def _run(self, *command: str) -> str:
        done = completed(*command, env=self._environment(), **self._as_user())
        if done.returncode:
            raise RuntimeError(f"{command[0]}: {done.stdout[-500:]}{done.stderr[-1500:]}")
        return done.stdout

    def _environment(self) -> dict[str, str]:
        """A MariaDB that starts removes the temporary files of another with the same TMPDIR."""
        return {**os.environ, "TMPDIR": str(self.directory / "tmp"), "HOME": str(self.directory)}

    def _own(self) -> None:
        (self.directory / "tmp").mkdir(exist_ok=True)
        if os.geteuid() == 0:
            entry = pwd.getpwnam(USER)
            for path in (self.directory, self.directory / "tmp"):
                os.chown(path, entry.pw_uid, entry.pw_gid)

    def _as_user(self) -> dict[str, object]:
        if os.geteuid() != 0:
            return {"cwd": self.directory}
        entry = pwd.getpwnam(USER)
        return {
            "user": entry.pw_uid,
            "group": entry.pw_gid,
            "extra_groups": [],
            "cwd": self.directory,
        }
