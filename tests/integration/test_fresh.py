"""What a newcomer meets in a fresh Debian: the demo, as a user with sudo; pip, as the page types it."""

from importlib import metadata
from pathlib import Path

import pytest

from tests.servers.nspawn import REPOSITORY, missing
from tests.servers.process import completed
from tests.servers.systemd_host import commands

pytestmark = [pytest.mark.real_systemd, pytest.mark.faults]

PREPARED = """
echo 'APT::Get::Assume-Yes "true";' >/etc/apt/apt.conf.d/90yes
export DEBIAN_FRONTEND=noninteractive
apt-get -q update
apt-get -q install --no-install-recommends systemd
ln -sf /bin/true /usr/local/bin/systemctl
"""
"""What a Debian has that debootstrap leaves out; no systemd runs, so that there is nothing to tell it."""


def fresh(tmp_path: Path, *command: str) -> str:
    """Run a command with ``tools/fresh.sh``; what it printed."""
    if (reason := missing(tmp_path / "try")) is not None:
        pytest.skip(reason)
    done = completed(
        *(REPOSITORY / "tools" / "fresh.sh", *command),
        env={"PATH": "/usr/bin:/usr/sbin:/bin:/sbin", "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "can't allow" not in done.stderr, "systemd-nspawn could not clean up"
    assert [path.name for path in tmp_path.iterdir() if "fresh" in path.name] == []
    return done.stdout


@pytest.mark.timeout(3600)
def test_the_commands_of_the_page_install_with_pip(tmp_path: Path) -> None:
    page = REPOSITORY / "docs" / "install.rst"
    programs = "/opt/compute-agent/bin"
    started = f"{programs}/python -c 'import libvirt' && {programs}/compute-agent --version"
    script = "\n".join(
        ["set -e", PREPARED, commands(page, "pip"), commands(page, "install"), started]
    )
    said = fresh(tmp_path, "sudo", "sh", "-c", script)
    assert said.rstrip().endswith(metadata.version("compute-agent"))


@pytest.mark.timeout(3600)
def test_the_demo_reports_a_libvirt_that_a_user_with_sudo_started(tmp_path: Path) -> None:
    demo = "tools/demo.sh --once --driver libvirt && ! grep -l libvirtd /proc/[0-9]*/comm"
    said = fresh(tmp_path, "sh", "-c", f"id -un; sudo -n id -un; {demo}")
    assert "user\nroot\n==> " in said
    assert "starting a private libvirtd" in said
    assert "fresh" in said and "calls to Placement" in said
