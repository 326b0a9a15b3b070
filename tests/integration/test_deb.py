"""The Debian packages: built from wheels, installed, upgraded, taken back and removed."""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

from tests.servers.databases import MariaDB
from tests.servers.nspawn import CHECKOUT, REPOSITORY, Container, missing
from tests.servers.placement import RealPlacement
from tests.servers.ports import free_port
from tests.servers.process import completed
from tests.servers.systemd_host import SystemdHost

pytestmark = [pytest.mark.real_systemd, pytest.mark.faults]

BEFORE = "0.0.9"
"""There is no earlier release: the version before is this source under a lower number."""
BUILD = REPOSITORY / "build" / "deb"
"""Kept between runs, as .venv is: what the packages bring is installed there once."""
SOURCES = ("agent", "compute_registry", "computectl", "driverkit", "drivers", "reportclient", "etc")
BESIDE = ("setup.cfg", "pyproject.toml", "MANIFEST.in", "README.rst", "LICENSE")
NAMES = ("compute-agent", "compute-registry", "computectl")
CONFIGURATION = """
[DEFAULT]
host = packaged
compute_driver = fake
periodic_fuzzy_delay = 0
update_resources_interval = 1
[placement]
auth_type = admin_token
token = admin
endpoint = {url}
"""

REGISTRY = """
[DEFAULT]
state_path = /var/lib/compute-registry
transport_url = rabbit://127.0.0.1:1/
[registry]
connection = {database}
master_key = secret
rest_port = {port}
[keystone_authtoken]
auth_type = password
auth_url = http://127.0.0.1:1/
"""


def packages(version: str) -> Path:
    return BUILD / "tested" / version


def build(version: str, scratch: Path) -> None:
    """The packages of this source, as if it were of that version."""
    source = scratch / version
    for name in SOURCES:
        shutil.copytree(REPOSITORY / name, source / name, ignore=shutil.ignore_patterns("__py*"))
    for name in BESIDE:
        shutil.copy(REPOSITORY / name, source / name)
    config = source / "setup.cfg"
    config.write_text(re.sub(r"(?m)^version = .*", f"version = {version}", config.read_text()))
    quiet = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    wheels = scratch / f"{version}-wheels"
    sources = [str(source / "reportclient"), str(source)]
    subprocess.run([*quiet, "-w", str(wheels), *sources], check=True)
    shutil.rmtree(packages(version), ignore_errors=True)
    command = [REPOSITORY / "tools" / "deb.sh", "--wheels", wheels, "--build", BUILD]
    done = completed(
        *command, "--output", packages(version), env=os.environ | {"COMPUTE_AGENT_DEB_LEVEL": "1"}
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def now(tmp_path_factory: pytest.TempPathFactory) -> str:
    """This version, and the one before, as packages."""
    scratch = tmp_path_factory.mktemp("wheels")
    reason = missing(scratch / "try")
    if reason is not None:
        pytest.skip(reason)
    if not Path("/usr/bin/python3").exists() or shutil.which("dpkg-deb") is None:
        pytest.skip("this is no Debian")
    wheel = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    shutil.copytree(REPOSITORY / "examples" / "accelerators", scratch / "driver")
    subprocess.run([*wheel, "-w", BUILD / "driver", scratch / "driver"], check=True)
    version = metadata.version("compute-agent")
    for each in (BEFORE, version):
        build(each, scratch)
    return version


class Host(SystemdHost):
    """A machine that has what Debian brings, and nothing of ours."""

    def dpkg(self, *arguments: str) -> str:
        return self.container.run("env", "DEBIAN_FRONTEND=noninteractive", "dpkg", *arguments)

    def take(self, version: str) -> None:
        files = sorted(packages(version).glob("*.deb"))
        inside = [f"{CHECKOUT}/{file.relative_to(REPOSITORY)}" for file in files]
        assert len(inside) == 3
        self.dpkg("--install", "--force-confold", *inside)

    def state(self) -> dict[str, str]:
        names = ("compute_id", "nodes.json")
        root = self.container.root / "var/lib/compute-agent"
        return {name: (root / name).read_text() for name in names if (root / name).exists()}


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory, now: str) -> Iterator[Host]:
    with Container(tmp_path_factory.mktemp("nspawn")) as container:
        # An image for containers may forbid packages to start anything.
        container.run("rm", "-f", "/usr/sbin/policy-rc.d")
        yield Host(container, "compute-agent")


def in_placement(placement: RealPlacement) -> dict[str, int]:
    found = placement.providers()
    return {one["uuid"]: one["generation"] for one in found}


def test_installed_upgraded_taken_back_removed_and_purged(host: Host, now: str, placement) -> None:
    host.take(BEFORE)
    assert host.show("compute-agent", "ActiveState") == "inactive", "it is not configured yet"
    path = "/etc/compute-agent/compute-agent.conf"
    assert host.container.run("stat", "-c", "%a %U:%G", path) == "640 root:compute-agent"
    (host.container.root / path[1:]).write_text(CONFIGURATION.format(url=placement.url))
    host.container.run("systemctl", "enable", "--now", "compute-agent")
    host.until_status("compute-agent", "1 node reported to Placement")
    state, reported = host.state(), in_placement(placement)
    assert state["compute_id"].strip() in reported

    for version in (now, BEFORE):
        pid = host.show("compute-agent", "MainPID")
        host.take(version)
        host.until("compute-agent", lambda: host.show("compute-agent", "MainPID") not in (pid, "0"))
        host.until_status("compute-agent", "1 node reported to Placement")
        [started] = re.findall(r"compute-agent (\d[\d.]+)\n", host.log("compute-agent"))[-1:]
        assert started == version
        assert host.state() == state
        assert in_placement(placement) == reported, "nothing was written anew"
        assert "host = packaged" in (host.container.root / path[1:]).read_text()

    written = (host.container.root / path[1:]).read_text()
    (host.container.root / path[1:]).write_text(f"{written}\n[compute]\nnothing = 1\n")
    pid = host.show("compute-agent", "MainPID")
    host.take(now)
    assert host.show("compute-agent", "MainPID") == pid, "it would not start"
    (host.container.root / path[1:]).write_text(written)

    check_the_installed(host)
    host.dpkg("--remove", "compute-agent", "compute-registry", "compute-agent-common")
    assert not (host.container.root / "usr/lib/compute-agent").exists()
    assert host.show("compute-agent", "LoadState") == "not-found"
    assert host.state() == state, "for the next installation"
    assert in_placement(placement) == reported, "that is for computectl retire"
    host.dpkg("--purge", "compute-agent")
    assert host.state() == {}
    assert not (host.container.root / path[1:]).exists()


def check_the_installed(host: Host) -> None:
    """Libraries of Debian's, compiled modules, no profile of AppArmor, and a driver of another's."""
    root = host.container.root
    python = "/usr/lib/compute-agent/bin/python"
    debians = "import libvirt, yaml; libvirt.openReadOnly('test:///default'); yaml.CSafeLoader"
    host.container.run(python, "-c", debians)
    assert list(
        root.glob("usr/lib/compute-agent/lib/python3*/site-packages/agent/__pycache__/main.*")
    )
    pid = host.show("compute-agent", "MainPID")
    confined = host.container.run("cat", f"/proc/{pid}/attr/current", check=False)
    assert confined in ("", "unconfined"), "empty: a kernel without AppArmor"
    profiles = [file.read_text() for file in (root / "etc/apparmor.d").glob("usr.*")]
    assert profiles and not [text for text in profiles if "compute-agent" in text]
    with MariaDB() as server:
        text = REGISTRY.format(port=free_port(), database=server.create("registry"))
        host.container.write("/etc/compute-registry/compute-registry.conf", text)
        host.start("compute-registry")
        host.until(
            "compute-registry", lambda: "Serving os-services" in host.log("compute-registry")
        )
        host.container.run("systemctl", "stop", "compute-registry")
    # With Debian's pip, as docs/install.rst has it; pip is not in the environment.
    pip = ("/usr/bin/python3", "-m", "pip", "--python", python)
    [wheel] = (BUILD / "driver").glob("*.whl")
    inside = f"{CHECKOUT}/{wheel.relative_to(REPOSITORY)}"
    host.container.run(*pip, "install", "--no-index", "--no-deps", inside)
    drivers = "from importlib.metadata import entry_points as e; print(*e(group='compute_agent.drivers').names)"
    assert "accelerators" in host.container.run(python, "-c", drivers)
    host.container.run(*pip, "uninstall", "--yes", "host-accelerators")
    # A controller has no binding of libvirt.
    for module in root.glob("usr/lib/python3/dist-packages/libvirt*.py"):
        module.unlink()
    host.container.run("/var/lib/dpkg/info/compute-agent-common.postinst", "configure")


# -- what is in them


@pytest.fixture(scope="module")
def unpacked(now: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the packages hold; Debian's containers leave manual pages out when they install."""
    top = tmp_path_factory.mktemp("unpacked")
    for each in packages(now).glob("*.deb"):
        subprocess.run(["dpkg-deb", "-x", each, top], check=True)
    return top


def test_no_file_says_where_it_was_built(unpacked: Path) -> None:
    places = ["grep", "-rlF", "-e", str(BUILD), "-e", "/wheels", str(unpacked)]
    found = completed(*places)
    assert [line for line in found.stdout.split("\n") if line and "/RECORD" not in line] == []


def test_no_library_is_searched_for_where_others_may_write(unpacked: Path) -> None:
    libraries = [file for file in unpacked.rglob("*.so*") if not file.is_symlink()]
    assert libraries
    for file in libraries:
        dynamic = completed("readelf", "-dW", file, check=True)
        paths = re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", dynamic.stdout)
        assert all(path.startswith("$ORIGIN") for path in paths), (file, paths)


def test_the_packages_have_neither_cache_files_nor_tools_to_build(unpacked: Path) -> None:
    files = [file for file in unpacked.rglob("*") if file.is_symlink() or file.is_file()]
    assert len(files) < 4000
    assert sum(file.lstat().st_size for file in files) < 50 * 2**20
    assert not {"__pycache__", "pip", "setuptools"} & {
        part for file in files for part in file.parts
    }


def test_lintian_finds_nothing_that_no_override_explains(now: str) -> None:
    if shutil.which("lintian") is None:
        pytest.skip("lintian is not installed")
    command = ["lintian", *packages(now).glob("*.deb")]
    done = completed(*command)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


@pytest.mark.parametrize("name", NAMES)
def test_each_program_has_a_manual_page_that_man_can_draw(unpacked: Path, name: str) -> None:
    [page] = unpacked.glob(f"usr/share/man/man*/{name}.*.gz")
    drawn = completed(
        "man", "--warnings", "-l", page, env=os.environ | {"MANWIDTH": "100", "LC_ALL": "C.UTF-8"}
    )
    assert (drawn.returncode, drawn.stderr) == (0, "")
    assert "EXIT STATUS" in drawn.stdout


def completions(unpacked: Path, *words: str) -> set[str]:
    """What bash offers in place of the last word."""
    file = unpacked / "usr/share/bash-completion/completions" / words[0]
    function = f"_{words[0].replace('-', '_')}"
    script = """
        _get_comp_words_by_ref() {
            cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]}
            words=("${COMP_WORDS[@]}")
        }
        . "$1"; function=$2; shift 2
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); $function; printf '%s\n' "${COMPREPLY[@]}"
    """
    command = ["bash", "-c", script, "bash", str(file), function, *words]
    return set(completed(*command, check=True).stdout.split())


def test_bash_completes_commands_and_options(unpacked: Path) -> None:
    assert completions(unpacked, "computectl", "ad") == {"adopt"}
    assert "--at-start" in completions(unpacked, "computectl", "plan", "--")
    assert completions(unpacked, "compute-agent", "--config-f") == {"--config-file"}
    assert "--host-keys" in completions(unpacked, "compute-registry", "--")


def test_zsh_offers_the_same(unpacked: Path) -> None:
    if shutil.which("zsh") is None:
        pytest.skip("zsh is not installed")
    file = unpacked / "usr/share/zsh/vendor-completions/_computectl"
    text = file.read_text().replace("/usr/share/", f"{unpacked}/usr/share/")
    script = f"compadd() {{ shift; print -l $@ }}; words=(computectl ad) CURRENT=2\n{text}"
    done = completed("zsh", "-fc", script)
    assert (done.stdout, done.stderr) == ("adopt\n", "")
