"""What is kept on disk: full, read-only, of a later version, taken away."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from agent.state.document import Document
from agent.state.saved_root import root_path
from tests.faults.site import Site

pytestmark = pytest.mark.faults


def mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


@pytest.fixture
def disk(site: Site) -> Iterator[Path]:
    """The state directory, on a disk of its own of half a megabyte."""
    if os.geteuid() != 0:
        pytest.skip("to mount takes root")
    path = site.agent.state_path
    path.mkdir(parents=True)
    mount("-t", "tmpfs", "-o", "size=512k,mode=0755", "compute-agent-test", str(path))
    yield path
    site.agent.kill()
    subprocess.run(["umount", str(path)], check=True)


def fill(disk: Path) -> Path:
    """Not a byte is left afterwards."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            return ballast


def restarted(site: Site) -> None:
    site.agent.kill()
    site.agent.start()


def test_its_disk_is_full_while_it_runs_and_when_it_starts(site: Site, disk: Path) -> None:
    site.begin()
    ballast = fill(disk)
    site.changes()
    restarted(site)
    site.changes()
    ballast.unlink()
    site.changes()
    restarted(site)
    site.changes()


def test_its_disk_is_read_only_when_it_starts(site: Site, disk: Path) -> None:
    """A kernel that met errors mounts it so; what is open for writing keeps a test from it."""
    site.begin()
    site.agent.kill()
    mount("-o", "remount,ro", str(disk))
    site.agent.start()
    site.changes()
    mount("-o", "remount,rw", str(disk))
    site.changes()
    restarted(site)
    site.changes()


UNPRIVILEGED = ("setpriv", "--bounding-set", "-dac_override,-dac_read_search,-fowner,-chown")
"""Root that may do no more than another user with what is not its own."""
NOBODY = 65534


def belongs_to(user: int, path: Path, mode: int = 0o755) -> None:
    for each in (path, *path.iterdir()):
        os.chown(each, user, user)
    path.chmod(mode)


@pytest.fixture
def unprivileged(site: Site) -> Site:
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("to give a directory away takes root and setpriv")
    site.agent.prefix = UNPRIVILEGED
    return site


def test_it_belongs_to_another_user_at_a_start_and_later(unprivileged: Site) -> None:
    site, state = unprivileged, unprivileged.agent.state_path
    site.begin()
    for _ in range(2):
        belongs_to(NOBODY, state)
        site.changes()
        site.agent.until_logged(f"{state} belongs to nobody, and this process runs as root")
        site.agent.until_logged(f"chown -R root {state})")
        restarted(site)
        site.changes()
        belongs_to(0, state)
        site.changes()
        restarted(site)
        site.converges()


def test_one_that_it_may_not_read_ends_the_start_and_systemd_tries_again(
    unprivileged: Site,
) -> None:
    site, state = unprivileged, unprivileged.agent.state_path
    site.begin()
    site.agent.kill()
    belongs_to(NOBODY, state, 0o700)
    site.change()
    site.agent.start()
    assert site.agent.process is not None
    assert site.agent.process.wait(60) == 1, "2 would tell systemd to leave it"
    assert f"Permission denied: {state} belongs to nobody" in site.agent.log
    belongs_to(0, state)
    site.agent.start()
    site.converges()


def test_a_later_version_wrote_what_is_kept(site: Site) -> None:
    """After a downgrade: its file is left alone, and nothing new is claimed until it is gone."""
    site.begin()
    site.agent.kill()
    path = root_path(site.agent.state_path, site.root)
    Document(path, version=99).save({})
    later = path.read_bytes()
    site.agent.start()
    site.change()
    site.agent.until_logged("a later compute-agent wrote it")
    assert path.read_bytes() == later
    path.unlink()
    site.converges()
