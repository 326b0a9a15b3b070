"""What the version before kept of a root is read once, becomes the ledger, and is left as it was."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from agent.ownership.ledger import FILES, FORMER, Holding
from agent.state.kept_root import KeptRoot, saved_roots
from agent.state.roots import RootStore
from agent.switching.machine import ServiceStatus
from agent.switching.service_file import ServiceFile
from reportclient.model import Inventory, Provider
from reportclient.names import Names
from reportclient.saved_view import besides_providers, provider_row
from reportclient.snapshot import Snapshot
from reportclient.view import View

ROOT = "c0ffee00-0000-4000-8000-000000000001"
CARD = "c0ffee00-0000-4000-8000-000000000002"
FOREIGN = "c0ffee00-0000-4000-8000-000000000003"
VIEW = View(
    Snapshot.build(
        [
            Provider(ROOT, "host", None, {"VCPU": Inventory(8, 1)}, frozenset({"HW_X"})),
            Provider(CARD, "card", ROOT, {"VGPU": Inventory(4, 1)}, frozenset()),
            Provider(FOREIGN, "nfs", None, {"DISK_GB": Inventory(9, 1)}, frozenset()),
        ]
    ),
    {ROOT: 3, CARD: 1, FOREIGN: 7},
    Names(frozenset({"HW_X"}), frozenset({"VCPU", "VGPU", "DISK_GB"})),
    frozenset({FOREIGN}),
)


def line(fields: object) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()


def two_lines(version: int = 2, **more: object) -> bytes:
    rows = [provider_row(one) for one in VIEW.snapshot.providers.values()]
    body = line({"providers": rows, **besides_providers(VIEW), **more})
    checksum = hashlib.sha256(body).hexdigest()
    header = {"version": version, "root": ROOT, "sha256": checksum}
    return json.dumps(header).encode() + b"\n" + body + b"\n"


def write(state: Path, view: bytes) -> dict[Path, bytes]:
    drivers = {"libvirt": [["class", ROOT, "VCPU"], ["trait", ROOT, "HW_X"]]}
    added = {CARD: {"classes": ["CUSTOM_A"], "traits": ["CUSTOM_B"]}}
    parts = {"drivers": drivers, "added": ["CUSTOM_SEEN"]}
    written = {
        state / f"view-{ROOT}.json": view,
        state / f"parts-{ROOT}.json": line(parts),
        state / f"provider-config-{ROOT}.json": b"{}\n" + line(added),
    }
    for path, data in written.items():
        path.write_bytes(data)
    return written


def kept(state: Path) -> KeptRoot:
    root = KeptRoot(RootStore.of(state), ROOT)
    root.load()
    return root


def test_its_view_is_to_be_verified_and_its_claims_become_the_ledger(tmp_path: Path) -> None:
    write(tmp_path, two_lines(made=[CARD]))
    root = kept(tmp_path)
    assert root.view == VIEW.stale()
    assert saved_roots(tmp_path) == [ROOT]
    own = Holding(False, frozenset({"VCPU"}), frozenset({"HW_X"}))
    assert root.ledger.begun and root.ledger.seen == {"CUSTOM_SEEN"}
    assert root.ledger.of(ROOT) == {"driver:libvirt": own}
    assert root.ledger.of(CARD) == {
        FORMER: Holding(True, frozenset({"VGPU"})),
        FILES: Holding(False, frozenset({"CUSTOM_A"}), frozenset({"CUSTOM_B"})),
    }


def test_its_files_stay_for_a_downgrade_and_are_not_read_again(tmp_path: Path) -> None:
    written = write(tmp_path, two_lines())
    root = kept(tmp_path)
    root.save(ROOT, root.view)
    assert {path: path.read_bytes() for path in written} == written
    (tmp_path / f"view-{ROOT}.json").write_bytes(b"not read again")
    again = kept(tmp_path)
    assert again.view == VIEW.stale() and again.ledger == root.ledger


def test_a_damaged_view_of_it_is_read_from_placement(tmp_path: Path, caplog) -> None:
    write(tmp_path, two_lines().replace(b"VCPU", b"VCPV"))
    root = kept(tmp_path)
    assert root.view == View()
    assert "its checksum is wrong" in caplog.text


def test_the_names_of_a_still_older_one_are_read(tmp_path: Path) -> None:
    body = json.loads(two_lines().partition(b"\n")[2])
    body["strangers"] = body.pop("sharing")
    checksum = hashlib.sha256(line(body)).hexdigest()
    header = json.dumps({"version": 2, "root": ROOT, "sha256": checksum}).encode()
    write(tmp_path, header + b"\n" + line(body) + b"\n")
    assert kept(tmp_path).view.sharing == {FOREIGN}


def test_a_status_without_a_checksum_is_read(tmp_path: Path) -> None:
    file = ServiceFile.of(tmp_path)
    fields = {"version": 1, "disabled": True, "reason": "disks", "record_version": 4}
    file.path.write_bytes(line(fields | {"told": True, "by_program": False}))
    assert file.load() == ServiceStatus(True, "disks", 4)
