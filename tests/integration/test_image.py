"""The image of tools/image.sh, run by podman: beside a real Placement, libvirtd, broker and database."""

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers.agent import REPOSITORY
from tests.servers.databases import MariaDB
from tests.servers.libvirtd import PrivateLibvirtd
from tests.servers.placement import RealPlacement
from tests.servers.ports import free_port
from tests.servers.process import completed
from tests.waiting import eventually

pytestmark = [
    pytest.mark.faults,
    pytest.mark.timeout(3600),
    pytest.mark.needs("libvirtd", "podman"),
]

IMAGE = REPOSITORY / "build" / "image" / "tested.tar"
WAYS = (
    ("--network=host",),
    # A machine that is itself a container: crun asks for more than it may.
    (
        "--network=host",
        "--runtime=/usr/sbin/runc",
        "--ulimit=nofile=1024:1024",
        "--ulimit=nproc=1000:1000",
    ),
)
"""Options of ``podman run`` that are tried one after the other."""
PLACEMENT = """\
[placement]
auth_type = admin_token
token = admin
endpoint = {url}
"""
USER = 42470
COMMAND = ("computectl", "--config-file=/etc/compute-agent/compute-agent.conf")
AGENT = """\
[DEFAULT]
host = contained
compute_driver = libvirt
periodic_fuzzy_delay = 0
update_resources_interval = 1
"""
REGISTRY = """\
[DEFAULT]
transport_url = {broker}
[registry]
connection = {database}
unsigned_calls = true
"""


class Podman:
    """podman with a storage of its own; containers by name."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.how: tuple[str, ...] = ()
        self.image = ""

    def __call__(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        storage = [f"--root={self.directory}/storage", f"--runroot={self.directory}/run"]
        done = completed("podman", *storage, "--cgroup-manager=cgroupfs", *words)
        assert done.returncode == 0 or not check, f"{words}: {done.stdout}{done.stderr}"
        return done

    def missing(self) -> str | None:
        """Why no container can run here; else ``how`` is set."""
        said = ""
        for self.how in WAYS:
            done = self("run", "--rm", *self.how, self.image, "true", check=False)
            if done.returncode == 0:
                return None
            said += done.stderr.strip().rpartition("\n")[2] + "; "
        return f"podman can't run a container here: {said}"

    def start(self, name: str, *words: str) -> None:
        """Start a container that has no other with its name, and is removed with it."""
        self("rm", "--force", "--ignore", name)
        port = f"--env=OS_MONITORING__LISTEN_PORT={free_port()}"
        self("run", "--detach", f"--name={name}", port, *self.how, *words)

    def log(self, name: str) -> str:
        return self("logs", name).stdout

    def is_healthy(self, name: str) -> bool:
        return self("healthcheck", "run", name, check=False).returncode == 0

    def until(self, name: str, condition: Callable[[], Any]) -> None:
        """Wait for it; what the container logged explains why it did not come."""
        eventually(condition, 90, 0.2, otherwise=lambda: self.log(name))

    def state(self, name: str) -> dict[str, Any]:
        """What podman says of a container's process."""
        (shown,) = json.loads(self("inspect", name).stdout)
        state: dict[str, Any] = shown["State"]
        return state

    def memory(self, name: str) -> float:
        """Resident MiB of its process."""
        text = Path(f"/proc/{self.state(name)['Pid']}/status").read_text()
        (line,) = [line for line in text.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) / 1024


@pytest.fixture(scope="module")
def podman(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Podman]:
    """With the image, which is built from the source as it is."""
    built = completed(REPOSITORY / "tools" / "image.sh", "--output", IMAGE)
    assert built.returncode == 0, built.stdout + built.stderr
    podman = Podman(tmp_path_factory.mktemp("podman"))
    podman.image = podman("load", "--quiet", "--input", str(IMAGE)).stdout.split()[-1]
    reason = podman.missing()
    if reason is not None:
        pytest.skip(reason)
    yield podman
    podman("rm", "--force", "--all")
    podman("rmi", "--force", "--all")


def configuration(directory: Path, name: str, text: str) -> str:
    """A configuration's directory; the option that mounts it where the image looks."""
    (directory / name).mkdir(parents=True, exist_ok=True)
    (directory / name / f"{name}.conf").write_text(text)
    return f"--volume={directory / name}:/etc/{name}:ro"


def introduce(libvirtd: PrivateLibvirtd, directory: Path) -> None:
    """Make the image's user known to a libvirtd, as the page makes it known to a host."""
    libvirtd.directory.chmod(0o755)
    for name, rest in (("passwd", f"{USER}::/:/usr/sbin/nologin"), ("group", "")):
        file = directory / name
        file.write_text(Path("/etc", name).read_text() + f"compute-agent:x:{USER}:{rest}\n")
        command = ["mount", "--bind", str(file), f"/etc/{name}"]
        entered = ["nsenter", "--mount", f"--target={libvirtd.pid}", "--", *command]
        subprocess.run(entered, check=True)


def test_the_agent_reports_and_keeps_its_state_over_kill_and_upgrade(
    podman: Podman, placement: RealPlacement, libvirtd: PrivateLibvirtd, tmp_path: Path
) -> None:
    text = AGENT + PLACEMENT.format(url=placement.url) + libvirtd.group
    introduce(libvirtd, tmp_path)
    group = libvirtd.socket.stat().st_gid
    words = (
        configuration(tmp_path, "compute-agent", text),
        "--volume=contained:/var/lib/compute-agent",
        f"--volume={libvirtd.socket.parent}:{libvirtd.socket.parent}",
        f"--group-add={group}",
        "--read-only",
        podman.image,
    )

    def roots() -> dict[str, str]:
        listed = placement.providers()
        return {one["name"]: one["uuid"] for one in listed}

    podman.start("agent", *words)
    podman.until("agent", lambda: "created 1 provider" in podman.log("agent"))
    before = roots()
    ((name, uuid),) = before.items()
    assert "VCPU" in placement.stranger.inventory(uuid)
    podman.until("agent", lambda: podman.is_healthy("agent"))
    assert Path(f"/proc/{podman.state('agent')['Pid']}").stat().st_uid == USER
    assert name in podman("exec", "agent", *COMMAND, "tree").stdout
    print(f"agent: {podman.memory('agent'):.0f} MiB")

    podman("kill", "--signal=STOP", "agent")
    assert not podman.is_healthy("agent"), "it hangs"
    podman("kill", "--signal=CONT", "agent")

    podman("kill", "--signal=KILL", "agent")
    podman("start", "agent")
    podman.until("agent", lambda: podman.log("agent").count("connected to libvirt") == 2)
    podman.until("agent", lambda: podman.is_healthy("agent"))
    assert roots() == before

    podman("stop", "--time=60", "agent")
    mark = placement.mark()
    podman.start("agent", *words)  # as after an upgrade: another container, the same volume
    podman.until("agent", lambda: podman.is_healthy("agent"))
    assert roots() == before
    assert [str(one) for one in placement.since(mark) if one.is_write] == []


def test_a_wrong_configuration_is_logged_and_is_not_healthy(podman: Podman, tmp_path: Path) -> None:
    text = "[DEFAULT]\nhost = contained\ncompute_driver = fake\n"
    podman.start("broken", configuration(tmp_path, "compute-agent", text), podman.image)
    podman.until("broken", lambda: podman.state("broken")["Status"] == "exited")
    assert podman.state("broken")["ExitCode"] == 2
    assert "auth_type is not set" in podman.log("broken")
    assert not podman.is_healthy("broken")


def test_the_registry_runs_from_the_same_image(podman: Podman, broker, tmp_path) -> None:
    with MariaDB() as database:
        url = database.create("registry")
        text = REGISTRY.format(broker=broker.url, database=url)
        words = (
            configuration(tmp_path, "compute-registry", text),
            "--user=compute-registry",
            podman.image,
            "compute-registry",
        )
        podman.start("registry", *words)
        podman.until("registry", lambda: podman.is_healthy("registry"))
        print(f"registry: {podman.memory('registry'):.0f} MiB")
        podman("kill", "--signal=KILL", "registry")
        podman("start", "registry")
        podman.until("registry", lambda: podman.is_healthy("registry"))
        assert database.sql("SHOW TABLES IN registry").count("\n") > 0
