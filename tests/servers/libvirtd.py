"""A real libvirtd for tests: private, killable, stoppable, gone when the test is."""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from urllib.parse import quote

from tests.servers.process import Server, end, launched, wait_for

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "private-libvirtd.sh"


def missing() -> str | None:
    """Why a private libvirtd can't run here, or ``None``."""
    if os.geteuid() != 0:
        return "a private libvirtd needs root"
    if shutil.which("libvirtd", path=f"{os.environ['PATH']}:/usr/sbin") is None:
        return "libvirtd is not installed"
    allowed = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return None if allowed.returncode == 0 else "mount namespaces are not allowed here"


class PrivateLibvirtd(Server):
    """``tools/private-libvirtd.sh`` below ``directory``; keep that path short (sockets)."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self.environment: dict[str, str] = {}
        """More for its next start."""
        self._watcher: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> Path:
        return self.directory / "run" / "libvirt" / "libvirt-sock"

    @property
    def uri(self) -> str:
        return f"qemu+unix:///system?socket={quote(str(self.socket))}"

    @cached_property
    def virt_type(self) -> str:
        """Of its guests: not every machine has KVM."""
        command = ["virsh", "-q", "-c", self.uri, "domcapabilities", "--virttype", "kvm"]
        return "qemu" if subprocess.run(command, capture_output=True).returncode else "kvm"

    @property
    def group(self) -> str:
        """The driver's options, as they have to be for it."""
        return f"[libvirt]\nconnection_uri = {self.uri}\nvirt_type = {self.virt_type}\n"

    @property
    def pid(self) -> int:
        """The pid of libvirtd itself."""
        return int((self.directory / "run" / "libvirtd.pid").read_text())

    def start(self, timeout: float = 120.0) -> None:
        """Start it and wait until its socket takes connections."""
        assert self._watcher is None or self._watcher.poll() is not None, "it runs already"
        self.directory.mkdir(parents=True, exist_ok=True)
        self.socket.unlink(missing_ok=True)
        own = {"env": os.environ | self.environment, "start_new_session": True}
        command = [str(SCRIPT), str(self.directory)]
        self._watcher = launched(command, self.directory / "out", "wb", **own)
        wait_for(self.socket.exists, self._watcher, self._output, timeout)

    def stop(self) -> None:
        watcher, self._watcher = self._watcher, None
        end(watcher)

    def kill9(self) -> None:
        """SIGKILL to libvirtd; returns when it is gone."""
        os.kill(self.pid, signal.SIGKILL)
        assert self._watcher is not None
        self._watcher.wait(timeout=60)
        self._watcher = None

    def sigstop(self) -> None:
        """Hang it: it keeps its connections and answers nothing."""
        os.kill(self.pid, signal.SIGSTOP)

    def sigcont(self) -> None:
        """Let it run again."""
        os.kill(self.pid, signal.SIGCONT)

    def _output(self) -> str:
        files = (self.directory / "out", self.directory / "log" / "libvirtd.log")
        return "\n".join(f.read_text(errors="replace")[-2000:] for f in files if f.exists())


@contextmanager
def private_libvirtd() -> Iterator[PrivateLibvirtd]:
    """One that runs, in a folder with a short name: a socket's path has 107 bytes."""
    directory = tempfile.mkdtemp(prefix="libvirtd-")
    try:
        with PrivateLibvirtd(directory) as daemon:
            yield daemon
    finally:
        shutil.rmtree(directory)
