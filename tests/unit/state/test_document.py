"""Documents of the state directory: whole or not at all, and never believed when damaged."""

import json
import os
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from agent.state import files
from agent.state.document import Damaged, Document, Unusable, machine_id
from tests.full_disk import full_disk

FIELDS = {"name": "host", "nodes": {"a": 1.5, "b": None}}


def document(tmp_path: Path, **more: Any) -> Document:
    return Document(tmp_path / "kept.json", **more)


def same(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return {key: found[key] for key in FIELDS}


def test_what_was_saved_is_plain_json_with_a_checksum_and_read_again(tmp_path: Path) -> None:
    one = document(tmp_path)
    assert one.read(same) is None
    one.save(FIELDS)
    assert document(tmp_path).read(same) == FIELDS
    found = json.loads(one.path.read_text())
    assert found.pop("sha256")
    file, machine = found.pop("file"), found.pop("machine")
    assert found == {"version": 1, **FIELDS}
    assert file[0] == one.path.stat().st_ino
    assert machine == machine_id() and machine not in Path("/etc/machine-id").read_text()


def recreate(path: Path) -> None:
    """Its inode is soon another file's."""
    data = path.read_bytes()
    path.unlink()
    path.write_bytes(data)


def copy_over(path: Path) -> None:
    """As ``cp`` of a backup does, into the file that was written since."""
    backup = path.read_bytes()
    document(path.parent).save({**FIELDS, "name": "since"})
    path.write_bytes(backup)


def touch_and_move(path: Path) -> None:
    os.utime(path, (1, 1))
    path.rename(path.with_name("away")).rename(path)


@pytest.mark.parametrize(
    ("happens", "copied"), [(recreate, True), (copy_over, True), (touch_and_move, False)]
)
def test_a_file_that_was_copied_or_restored_is_known_until_it_is_saved(
    tmp_path: Path, happens: Callable[[Path], None], copied: bool
) -> None:
    document(tmp_path).save(FIELDS)
    happens(tmp_path / "kept.json")
    one = document(tmp_path)
    with pytest.raises(Damaged, match="was copied") if copied else nullcontext():
        one.read(same, no_copy=True)
    assert one.read(same) == FIELDS and not one.of_other_machine
    one.save(FIELDS)
    assert document(tmp_path).read(same, no_copy=True) == FIELDS


ONE, OTHER = b"3d1219c7c4c5404aaa1f6d2a48adfda4\n", b"00112233445566778899aabbccddeeff\n"
UNKNOWN = (b"", b"uninitialized\n", b"\xff")


@pytest.mark.parametrize("before", [ONE, *UNKNOWN])
@pytest.mark.parametrize("now", [ONE, OTHER, *UNKNOWN])
def test_an_unknown_machine_is_no_other_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: bytes, now: bytes
) -> None:
    machine = tmp_path / "machine-id"
    monkeypatch.setattr("agent.state.document.MACHINE_ID", machine)
    machine.write_bytes(before)
    document(tmp_path).save(FIELDS)
    machine.write_bytes(now)
    one = document(tmp_path)
    one.read(same)
    assert one.of_other_machine is ((before, now) == (ONE, OTHER))
    one.save(FIELDS)
    assert not one.of_other_machine and json.loads(one.path.read_text())["machine"] == machine_id()


@pytest.mark.parametrize("bits", [1, 2])
def test_no_flipped_bit_gives_something_else(tmp_path: Path, bits: int) -> None:
    one = document(tmp_path)
    one.save(FIELDS)
    whole = one.path.read_bytes()
    for bit in range(0, len(whole) * 8, 7):
        data = bytearray(whole)
        for each in range(bits):
            at = (bit + each * 97) % (len(whole) * 8)
            data[at // 8] ^= 1 << at % 8
        one.path.write_bytes(data)
        try:
            assert document(tmp_path).read(same) == FIELDS
        except Damaged as err:
            assert str(one.path) in str(err)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b"null", b"\xff\xfe", b"[" * 200_000, b'{"a":' * 200_000, b"1" * 5000],
)
def test_what_is_no_document_is_damage_and_can_be_moved_away(tmp_path: Path, data: bytes) -> None:
    one = document(tmp_path)
    one.path.write_bytes(data)
    with pytest.raises(Damaged, match=str(one.path)):
        one.read(same)
    aside = one.path.with_name("kept.json.damaged")
    assert files.move_damaged(one.path) == f", it is now {aside}"
    assert aside.read_bytes() == data
    assert one.read(same) is None


def test_fields_that_their_reader_can_not_use_are_damage(tmp_path: Path) -> None:
    document(tmp_path).save({"other": 1})
    with pytest.raises(Damaged, match="name"):
        document(tmp_path).read(same)


def test_a_later_versions_file_is_refused_and_never_written_over(tmp_path: Path) -> None:
    later = document(tmp_path, version=2)
    later.save(FIELDS)
    kept = later.path.read_bytes()
    one = document(tmp_path)
    with pytest.raises(Unusable, match="has version 2, and this compute-agent reads 1"):
        one.read(same)
    one.save({"name": "other"})
    assert one.path.read_bytes() == kept


def test_the_same_again_is_not_written(tmp_path: Path) -> None:
    one = document(tmp_path)
    one.save(FIELDS)
    was = one.path.stat().st_ino
    one.save(FIELDS)
    again = document(tmp_path)
    again.read(same)
    again.save(FIELDS)
    assert one.path.stat().st_ino == was
    one.path.unlink()
    one.save(FIELDS)
    assert one.path.exists()


def test_file_and_directory_are_on_disk_when_it_returns(tmp_path: Path, monkeypatch) -> None:
    synced: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", noted)
    one = document(tmp_path)
    one.save(FIELDS)
    assert synced == [str(one.path.with_name(".kept.json")), str(one.path.parent)]


def test_a_full_disk_is_told_once_tried_again_and_leaves_the_old_file(tmp_path, caplog) -> None:
    one = document(tmp_path)
    one.save(FIELDS)
    kept = one.path.read_bytes()
    with full_disk():
        for _ in range(3):
            one.save_or_warn({"name": "other"}, "it may be lost")
    assert one.path.read_bytes() == kept
    assert os.listdir(one.path.parent) == [one.path.name]
    told = [record.getMessage() for record in caplog.records]
    assert told == [f"{one.path} can't be written (No space left on device): it may be lost"]
    assert one.problem
    one.save_or_warn({"name": "other", "nodes": {}}, "")
    assert not one.problem
    assert document(tmp_path).read(same) == {"name": "other", "nodes": {}}
