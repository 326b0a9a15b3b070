"""``tools/demo.sh`` itself, as people run it; its environment is the tests' own."""

import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.test_readme import block, plain
from tests.servers.process import completed
from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
DEMO = ROOT / "tools" / "demo.sh"
INSTALLED = Path(sys.prefix, "bin", "compute-agent")
pytestmark = pytest.mark.skipif(not INSTALLED.exists(), reason="compute-agent is not installed")


class Demo:
    """With a directory of its own, short enough for libvirt's socket."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environment = {
            **os.environ,
            "COMPUTE_AGENT_VENV": str(directory / "venv"),
            "COMPUTE_AGENT_DEMO_DIR": str(directory / "demo"),
            "COMPUTE_AGENT_SKIP_PACKAGES": "yes",
        }
        self._pretend_that_all_is_installed()

    def _pretend_that_all_is_installed(self) -> None:
        """What a first run of it leaves behind, without the minutes that it takes."""
        venv = self.directory / "venv"
        venv.mkdir()
        (venv / "bin").symlink_to(Path(sys.prefix, "bin"))
        stamp = f". {ROOT}/tools/setup.sh; choose_python; fingerprint"
        said = self._shell(["bash", "-euc", stamp])
        assert said.returncode == 0, said.stderr
        for extras in ("dev", "libvirt-dev"):
            (venv / f".installed-{extras}").write_text(said.stdout)

    def _shell(self, command: list[str]) -> subprocess.CompletedProcess[str]:
        return completed(*command, timeout=240, env=self.environment)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        return self._shell([str(DEMO), *arguments])

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        with (self.directory / "out").open("w") as out:
            return subprocess.Popen(
                [str(DEMO), *arguments],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                text=True,
                env=self.environment,
                start_new_session=True,
            )

    @property
    def out(self) -> str:
        return (self.directory / "out").read_text()

    def left_running(self) -> list[str]:
        """Command lines that name this demo's directory."""
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if f"{self.directory}/" in command:
                found.append(command)
        return found


@pytest.fixture
def demo() -> Iterator[Demo]:
    directory = Path(tempfile.mkdtemp(prefix="demo-"))
    yield Demo(directory)
    shutil.rmtree(directory)


def names_in(text: str) -> list[str]:
    """The providers of a drawn tree, from top to bottom."""
    return re.findall(r"([\w.-]+)  UUID", "\n".join(plain(text)))


def test_a_scripted_host_is_shown_as_in_the_readme_and_written_once(demo):
    first = demo.run("--once", "--driver", "fake")
    assert first.returncode == 0, first.stderr
    shown = names_in(first.stdout.replace(platform.node(), "host1"))
    told = names_in(block("prints what Placement has then:"))
    assert told and shown[: len(told)] == told
    assert "host1_numa0_pf0" in shown and "SRIOV_NET_VF" in first.stdout
    second = demo.run("--once", "--driver=fake")
    assert second.returncode == 0, second.stderr
    assert "nothing to change, 2 calls to Placement" in second.stdout
    assert demo.left_running() == []


@pytest.mark.needs("libvirtd")
def test_this_machine_is_shown_by_a_private_libvirtd_which_stops(demo):
    first = demo.run("--once")
    assert first.returncode == 0, first.stdout + first.stderr
    assert "starting a private libvirtd" in first.stdout
    (cpus,) = re.findall(r"^[ │]*VCPU +(\d+) ", first.stdout, re.MULTILINE)
    assert int(cpus) == os.cpu_count()
    for part in ("MEMORY_MB", "DISK_GB", platform.node(), "COMPUTE_NODE"):
        assert part in first.stdout
    assert demo.left_running() == []


def test_ctrl_c_ends_it_and_all_that_it_started(demo):
    process = demo.start("--driver", "fake")
    eventually(lambda: "Ask more: " in demo.out, 120, process=process, otherwise=lambda: demo.out)
    os.killpg(process.pid, signal.SIGINT)
    assert process.wait(60) == 0
    assert demo.left_running() == []


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--driver", "xen"], "this demo has no driver xen"),
        (["--driver"], "--driver needs a name"),
        (["--onc"], "unknown argument: --onc"),
    ],
)
def test_what_it_does_not_know_is_said_before_anything_is_set_up(demo, arguments, said):
    refused = demo.run(*arguments)
    assert refused.returncode == 1
    assert said in refused.stderr and refused.stdout == ""
