"""A real systemd for tests: PID 1 of a container whose files are an overlay of this machine's.

The mounts live in a mount namespace of the container's own and die with it, whatever
becomes of the tests; the loopback network is shared, so servers of the test are reached.
"""

import functools
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

from tests.servers.process import Server, children, completed
from tests.waiting import without_error

REPOSITORY = Path(__file__).resolve().parents[2]
# Where a service can read them: its own /home, /root and /tmp may be hidden from it.
PYTHON = Path("/opt/python")
LIBRARIES = Path("/opt/libraries")
CHECKOUT = Path("/opt/checkout")
BINDS = {PYTHON: sys.base_prefix, LIBRARIES: sysconfig.get_path("purelib"), CHECKOUT: REPOSITORY}

# The overlay's upper half is a tmpfs: on the file system of / it would lie below itself.
MOUNT = """
set -e
mount -t tmpfs -o size=1g tmpfs "$1"
mkdir "$1/upper" "$1/work" "$1/root"
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/upper,workdir=$1/work" "$1/root"
"""
# A cgroup of its own, or two containers would take each other's services for theirs.
BOOT = """
root=$1/root
shift
while [ "$1" != -- ]; do
    echo $$ > "$1/cgroup.procs"
    shift
done
shift
exec systemd-nspawn --quiet --boot --register=no --keep-unit --console=pipe --link-journal=no \
    --resolv-conf=off --timezone=off --directory="$root" --machine="compute-agent-$$" "$@" systemd.unit=basic.target
"""
HIERARCHIES = ("/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/systemd")
UNSHARE = ("unshare", "--mount", "--propagation=private")


def missing(scratch: Path) -> str | None:
    """Why no container can run here, or ``None``: the reason for a skip."""
    if os.geteuid() != 0:
        return "systemd-nspawn needs root"
    for command in ("systemd-nspawn", "nsenter", "setpriv"):
        if shutil.which(command) is None:
            return f"{command} is not installed"
    scratch.mkdir(parents=True, exist_ok=True)
    tried = completed(*UNSHARE, "sh", "-c", MOUNT, "sh", str(scratch))
    return f"no overlay can be mounted here: {tried.stderr.strip()}" if tried.returncode else None


class Container(Server):
    """``directory`` is where the overlay is mounted, and where the console's output is kept."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._nspawn: subprocess.Popen[bytes] | None = None
        self._init = 0

    @property
    def pid(self) -> int:
        """Of its PID 1, as this machine numbers processes."""
        return self._init

    @property
    def root(self) -> Path:
        """The container's ``/``, to write files into."""
        return Path(f"/proc/{self._init}/root")

    def start(self, timeout: float = 90.0) -> None:
        """Boot; returns when its systemd takes orders."""
        mount_point = self.directory / "overlay"
        mount_point.mkdir(parents=True)
        binds = [f"--bind-ro={outside}:{inside}" for inside, outside in BINDS.items()]
        with self._console.open("wb") as console:
            self._nspawn = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *UNSHARE]
                + ["sh", "-c", MOUNT + BOOT, "sh", str(mount_point)]
                + [*map(str, self._new_cgroups()), "--", *binds],
                stdin=subprocess.DEVNULL,
                stdout=console,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        give_up = time.monotonic() + timeout
        while not self._is_up():
            if self._nspawn.poll() is not None or time.monotonic() > give_up:
                self.stop()
                raise RuntimeError(f"systemd did not boot: {self._console.read_text()[-2000:]}")
            time.sleep(0.05)

    def stop(self) -> None:
        """Kill all that is in it.  Its mounts go with the last process."""
        nspawn, self._nspawn = self._nspawn, None
        if nspawn is None:
            return
        for pid in (*children(nspawn.pid), nspawn.pid):
            os.kill(pid, signal.SIGKILL)
        nspawn.wait(timeout=60)
        for cgroup in self._cgroups():
            _remove(cgroup)

    def run(self, *command: str, check: bool = True) -> str:
        """What a command in it says, without the last line end."""
        done = completed("nsenter", "--all", f"--target={self._init}", "--", *command)
        if check and done.returncode:
            raise RuntimeError(f"{command} in the container: {done.stdout}{done.stderr}")
        return done.stdout.strip()

    def write(self, path: str, text: str, mode: int = 0o644) -> None:
        """Write a file in it, and the directories above."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)

    @property
    def _console(self) -> Path:
        return self.directory / "console"

    def _cgroups(self) -> list[Path]:
        name = f"compute-agent-test-{os.getpid()}-{id(self)}"
        return [Path(top, name) for top in HIERARCHIES if Path(top, "cgroup.procs").exists()]

    def _new_cgroups(self) -> list[Path]:
        for cgroup in self._cgroups():
            cgroup.mkdir()
        return self._cgroups()

    def _is_up(self) -> bool:
        assert self._nspawn is not None
        for child in children(self._nspawn.pid):
            if _name(child) == "systemd":
                self._init = child
                state = self.run("systemctl", "is-system-running", check=False)
                return state in ("running", "degraded")
        return False


def _remove(cgroup: Path) -> None:
    """It and those below it.  A process that was killed may be in it for a moment yet."""
    for below, _, _ in os.walk(cgroup, topdown=False):
        without_error(functools.partial(os.rmdir, below), OSError)


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text().strip()
    except FileNotFoundError:
        return ""
