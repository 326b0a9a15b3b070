"""DISK_GB of a Ceph cluster: the command ``ceph df``, here a script that records its arguments."""

import json
import os
import re
from pathlib import Path

import pytest

from drivers.api import ProviderTree
from drivers.errors import DriverNotReady
from drivers.libvirt.facts.ceph import CephCluster
from tests.servers.process import wait_until_gone
from tests.unit.libvirt.fake_binding import FakeDomain
from tests.unit.libvirt.hosts import NODE, ROOT, totals
from tests.unit.libvirt.test_broken_documents import happen, report
from tests.unit.libvirt.test_disk import pool

pytestmark = pytest.mark.slow

GIB = 1024**3
OPTIONS = """
[libvirt]
images_type = rbd
images_rbd_pool = vms
rbd_user = cinder
images_rbd_ceph_conf = /etc/ceph/vms.conf
"""
ARGUMENTS = "df --format=json --id cinder --conf /etc/ceph/vms.conf\n"


def df(size: object = 6000 * GIB, *pools: str) -> str:
    listed = [{"name": name, "id": 1, "stats": {"max_avail": GIB}} for name in pools or ("vms",)]
    return json.dumps({"stats": {"total_bytes": size}, "pools": listed})


class Ceph:
    """The command on PATH; ``arguments`` has a line for each call."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.command = directory / "ceph"
        self.record = directory / "arguments"

    @property
    def arguments(self) -> str:
        return self.record.read_text()

    def does(self, script: str) -> None:
        self.command.write_text(f'#!/bin/sh\necho "$@" >> {self.record}\n{script}\n')
        self.command.chmod(0o755)

    def prints(self, text: str) -> None:
        (self.directory / "printed").write_text(text)
        self.does(f"cat {self.directory}/printed")


@pytest.fixture
def ceph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Ceph:
    directory = tmp_path / "bin"
    directory.mkdir()
    monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)
    return Ceph(directory)


@pytest.fixture
def make(fake_host):
    return lambda text=OPTIONS: fake_host.driver(text)


def disk_gb(tree) -> int | None:
    return totals(tree, NODE).get("DISK_GB")


def test_the_cluster_is_asked_as_the_options_say_where_libvirt_has_no_pool(ceph, make) -> None:
    ceph.prints(df())
    driver = make()
    tree = report(driver)
    assert disk_gb(tree) == 6000
    assert driver.degraded("host1") == {} and "ceph" in driver.took()
    assert ceph.arguments == ARGUMENTS
    assert disk_gb(report(driver, tree)) == 6000
    assert ceph.arguments == ARGUMENTS, "asked once in some minutes"


def test_a_pool_of_libvirts_is_asked_instead(ceph, make, binding) -> None:
    ceph.prints(df())
    vms = pool("rbd", "<name>vms</name>", size=str(50 * GIB))
    binding.answers["listAllStoragePools"] = [FakeDomain(vms)]
    assert disk_gb(report(make())) == 50
    assert not ceph.record.exists()


def test_no_other_kind_of_disk_asks_it(ceph, make) -> None:
    ceph.prints(df())
    for kind in ("raw", "lvm\nimages_volume_group = vg", "zfs\nimages_zfs_pool = tank"):
        report(make(f"[libvirt]\nimages_type = {kind}\n"))
    assert not ceph.record.exists()


def test_without_user_and_file_ceph_has_its_own_defaults(ceph) -> None:
    ceph.prints(df())
    assert CephCluster("vms").size() == 6000 * GIB
    assert ceph.arguments == "df --format=json\n"


NOTHING = "printed no JSON object with pools and stats"
FAILURES = {
    "denied": (
        'echo "some warning" >&2; echo "[errno 13] RADOS permission denied" >&2; exit 13',
        r"failed with exit code 13: \[errno 13\] RADOS permission denied; run it as this agent's",
    ),
    "unanswered": ("exit 1", "failed with exit code 1: no message; run it"),
    "garbage": ("echo GLOBAL:", rf"{NOTHING}, but 'GLOBAL:\\n': check that"),
    "not-utf8": (r"printf '\377'", NOTHING),
    "empty": ("", NOTHING),
    "list": ("echo []", NOTHING),
    "other": ("""echo '{"pools": [1]}'""", NOTHING),
    "poolless": (f"echo '{df(GIB, 'images', 'backups')}'", r"no pool 'vms' \(it has: backups, ima"),
    "sizeless": (f"echo '{df('much')}'", "has 'much' bytes: check it"),
    "zero": (f"echo '{df(0)}'", "has 0 bytes"),
    "not-run": (None, r"can't be run: Permission denied|can't be run: Exec format error"),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_failure_is_named_with_its_command_and_the_last_size_stays(
    ceph, make, binding, kind
) -> None:
    script, words = FAILURES[kind]
    ceph.prints(df())
    driver = make()
    tree = report(driver)
    if script is None:
        ceph.command.write_bytes(b"\x00")
    else:
        ceph.does(script)
    happen(binding)
    assert disk_gb(report(driver, tree)) == 6000
    (named,) = driver.degraded("host1").items()
    assert named[0] == "ceph" and named[1].startswith(f"`ceph {ARGUMENTS.strip()}` ")
    assert re.search(words, named[1])
    ceph.prints(df(7000 * GIB))
    assert disk_gb(report(driver, tree)) == 7000, "asked in the next period"


def test_at_a_start_without_the_command_placement_keeps_what_it_has(
    make, monkeypatch, binding
) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    driver, tree = make(), ProviderTree()
    tree.new_root(NODE, ROOT)
    tree.update_inventory(NODE, {"DISK_GB": {"total": 77}})
    later = report(driver, tree)
    assert disk_gb(later) == 77 and "VCPU" in totals(later, NODE)
    assert "no command ceph: install ceph-common" in driver.degraded("host1")["ceph"]


def test_a_command_that_hangs_is_killed_with_its_children(ceph) -> None:
    ceph.does(f"sleep 600 & echo $! > {ceph.directory}/child; wait")
    with pytest.raises(DriverNotReady, match=r"was killed after 0\.5 s: check that this host"):
        CephCluster("vms", within=0.5).size()
    wait_until_gone([int((ceph.directory / "child").read_text())])
