"""What a newcomer meets: the demo in a fresh Debian, as a user with sudo."""

from __future__ import annotations

import subprocess

import pytest

from tests.servers.nspawn import REPOSITORY, missing

pytestmark = [pytest.mark.real_systemd, pytest.mark.faults]


@pytest.mark.timeout(3600)
def test_the_demo_reports_a_libvirt_that_a_user_with_sudo_started(tmp_path) -> None:
    if (reason := missing(tmp_path / "try")) is not None:
        pytest.skip(reason)
    demo = "tools/demo.sh --once --driver libvirt && ! grep -l libvirtd /proc/[0-9]*/comm"
    done = subprocess.run(
        [REPOSITORY / "tools" / "fresh.sh", "sh", "-c", f"id -un; sudo -n id -un; {demo}"],
        capture_output=True,
        text=True,
        env={"PATH": "/usr/bin:/usr/sbin:/bin:/sbin", "TMPDIR": str(tmp_path)},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "user\nroot\n==> " in done.stdout
    assert "starting a private libvirtd" in done.stdout
    assert "fresh" in done.stdout and "calls to Placement" in done.stdout
    assert [path.name for path in tmp_path.iterdir() if "fresh" in path.name] == []
