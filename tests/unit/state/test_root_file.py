"""The saved state of a root: small writes, never half of a change, never an older state."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from agent.state.root_file import Documents, RootFile, is_new, root_path, saved_roots
from tests.full_disk import no_space

ONE, TWO = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
VIEW = ("view", ONE)
FIRST = {VIEW: {"name": "host", "inventory": {"VCPU": 4}}, ("ledger", "libvirt"): ["a", "b"]}
SECOND = {("view", TWO): {"name": "other"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return root_path(tmp_path, ONE)


@pytest.fixture
def file(path: Path) -> RootFile:
    file = RootFile(path)
    assert file.read() == {}
    return file


def on_disk(file: RootFile) -> Documents:
    """As the next process finds it."""
    return RootFile(file.path, writing=False).read()


def test_a_state_directory_names_its_roots(tmp_path: Path) -> None:
    assert is_new(tmp_path)
    for root in (TWO, ONE):
        assert RootFile(root_path(tmp_path, root)).replace(SECOND)
    (tmp_path / "root-copy.journal").touch()
    assert saved_roots(tmp_path) == [ONE, TWO]
    assert not is_new(tmp_path)
    assert saved_roots(tmp_path / "nowhere") == []


def test_documents_are_changed_and_removed_one_by_one(file: RootFile) -> None:
    assert not file.save(FIRST), "all have to be saved first"
    assert file.replace(FIRST)
    assert on_disk(file) == FIRST
    assert file.save({VIEW: {"name": "new"}, ("view", "x"): 1}, [("ledger", "libvirt")])
    assert on_disk(file) == {VIEW: {"name": "new"}, ("view", "x"): 1}


def test_a_root_is_forgotten_and_can_come_back(file: RootFile) -> None:
    file.replace(FIRST)
    assert file.forget()
    assert (on_disk(file), saved_roots(file.path.parent)) == ({}, [])
    assert not file.save(SECOND)
    assert file.replace(SECOND)
    assert on_disk(file) == SECOND


def test_the_next_process_goes_on_with_small_changes(file: RootFile) -> None:
    file.replace(FIRST)
    again = RootFile(file.path)
    assert again.read() == FIRST
    assert again.save({}, [VIEW])
    assert again.read() == on_disk(again) == {("ledger", "libvirt"): ["a", "b"]}


def test_nothing_changed_is_no_write(file: RootFile) -> None:
    file.replace(FIRST)
    size = file.path.stat().st_size
    assert file.save({})
    assert file.path.stat().st_size == size


def test_a_small_change_of_a_large_root_is_a_small_write(file: RootFile) -> None:
    file.replace({("view", str(each)): {"name": f"provider {each}" * 10} for each in range(10_001)})
    before = file.path.stat()
    assert file.save({("view", "7"): {"changed": True}})
    assert file.path.stat().st_ino == before.st_ino
    assert file.path.stat().st_size - before.st_size < 200
    assert on_disk(file)["view", "7"] == {"changed": True}
    assert len(on_disk(file)) == 10_001


def test_the_file_does_not_grow_for_ever(path: Path) -> None:
    file = RootFile(path, slack=1000)
    file.replace(FIRST)
    for number in range(300):
        now = {**FIRST, ("view", "x"): number}
        assert file.save({("view", "x"): number}) or file.replace(now)
        assert path.stat().st_size < 2000
    assert on_disk(file) == now


def test_every_prefix_of_the_file_is_a_state_that_there_was(file: RootFile) -> None:
    """What a killed writer, or a power cut, leaves; the next save makes it whole."""
    states = [{}, FIRST, {**FIRST, VIEW: 2}, {VIEW: 2}]
    file.replace(FIRST)
    file.save({VIEW: 2})
    file.save({}, [("ledger", "libvirt")])
    whole = file.path.read_bytes()
    seen = []
    for end in range(len(whole) + 1):
        for tail in (b"", b"\0" * 100):
            file.path.write_bytes(whole[:end] + tail)
            again = RootFile(file.path)
            found = again.read()
            seen.append(states.index(found))
            new = {**found, ("view", "x"): end}
            assert again.save({("view", "x"): end}) or again.replace(new)
            assert on_disk(again) == new
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2, 3}


def test_no_flipped_bit_gives_something_else(file: RootFile, caplog) -> None:
    """A bit of each byte: all as before, or nothing, and a line that says so."""
    file.replace(FIRST)
    file.save({VIEW: 2})
    whole = file.path.read_bytes()
    lost = 0
    for at in range(len(whole)):
        for bit in range(8):
            data = bytearray(whole)
            data[at] ^= 1 << bit
            file.path.write_bytes(data)
            again, caplog.records[:] = RootFile(file.path), []
            found = again.read()
            assert found in ({**FIRST, VIEW: 2}, {})
            lost += not found
            assert bool(caplog.records) is again.has_lost is (not found)
    assert lost > 7 * len(whole)


@pytest.mark.parametrize("damage", ["swapped", "left out", "twice", "another root's"])
def test_lines_that_were_moved_are_damage(file: RootFile, damage: str, caplog) -> None:
    file.replace(FIRST)
    file.save({VIEW: 2})
    file.save({VIEW: 3})
    first, second, third = file.path.read_bytes().splitlines(keepends=True)
    other = RootFile(root_path(file.path.parent, TWO))
    other.replace(FIRST)
    damaged = {
        "swapped": first + third + second,
        "left out": first + third,
        "twice": 2 * (first + second + third),
        "another root's": other.path.read_bytes(),
    }
    file.path.write_bytes(damaged[damage])
    assert RootFile(file.path).read() == {}
    assert f"{file.path} is damaged" in caplog.text


@pytest.mark.parametrize("data", [b"\n", b"{}\n", b"[" * 9000 + b"\n", b"SQLite format 3\0.\n"])
def test_a_damaged_file_is_set_aside(path: Path, caplog, data: bytes) -> None:
    path.write_bytes(data)
    assert RootFile(path, writing=False).read() == {}
    assert path.read_bytes() == data
    file = RootFile(path)
    assert file.read() == {}
    assert path.with_name(f"{path.name}.damaged").read_bytes() == data
    assert "is damaged" in caplog.text
    assert file.replace(FIRST)
    assert on_disk(file) == FIRST


def test_a_later_versions_file_is_refused_and_left_alone(file: RootFile, monkeypatch) -> None:
    with monkeypatch.context() as later:
        later.setattr("agent.state.root_file.VERSION", 2)
        file.replace(FIRST)
    data = file.path.read_bytes()
    again = RootFile(file.path)
    assert again.read() == {}
    assert again.is_unread
    assert not again.replace(SECOND)
    assert not again.forget()
    assert file.path.read_bytes() == data
    assert "a later compute-agent wrote it" in again.problem


def test_a_full_disk_leaves_what_was_saved(file: RootFile, monkeypatch) -> None:
    file.replace(FIRST)
    whole = file.path.read_bytes()
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", half)
        full.setattr(os, "fsync", no_space)
        assert not file.save({VIEW: 1})
        assert file.path.read_bytes() == whole
        assert not file.replace({VIEW: 1})
        assert file.path.read_bytes() == whole
        assert file.problem == f"{file.path} can't be written: No space left on device"
    assert not file.save({VIEW: 2}), "all have to be saved"
    assert file.replace({VIEW: 2})
    assert (on_disk(file), file.problem) == ({VIEW: 2}, "")


def test_a_write_that_can_not_be_undone_is_cut_off(file: RootFile, monkeypatch) -> None:
    file.replace(FIRST)
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", half)
        full.setattr(os, "ftruncate", no_space)
        assert not file.save({VIEW: 1})
    assert on_disk(file) == FIRST
    assert file.replace({VIEW: 2})
    assert on_disk(file) == {VIEW: 2}


def half(descriptor: int, data: bytes, offset: int) -> int:
    """As much as there was space for, and then no more."""
    if len(data) > 10:
        return os.pwritev(descriptor, [data[:10]], offset)
    return no_space()


def test_a_directory_that_can_not_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    file = RootFile(root_path(tmp_path / "file", ONE))
    assert file.read() == {}
    assert not file.replace(FIRST)
    assert "can't be written" in file.problem


@pytest.mark.parametrize("change", [Path.unlink, lambda path: path.write_bytes(b"another")])
def test_a_file_that_was_changed_under_it_is_saved_anew(file: RootFile, change) -> None:
    file.replace(FIRST)
    change(file.path)
    assert not file.save({VIEW: 1})
    assert file.replace({**FIRST, VIEW: 1})
    assert on_disk(file) == {**FIRST, VIEW: 1}


def test_no_link_is_followed(file: RootFile) -> None:
    victim = file.path.with_name("victim")
    victim.write_bytes(b"x")
    file.replace(FIRST)
    size = file.path.stat().st_size
    file.path.unlink()
    victim.write_bytes(b"x" * size)
    file.path.symlink_to(victim)
    assert not file.save({VIEW: 1})
    assert file.replace(FIRST)
    assert victim.read_bytes() == b"x" * size


WRITER = """
import sys
from pathlib import Path
from agent.state.root_file import RootFile
file = RootFile(Path(sys.argv[1]), slack=500)
number = file.read().get(("view", "n"), 0)
while True:
    number += 1
    documents = {("view", "n"): number, ("ledger", "n"): number}
    assert file.save(documents) or file.replace(documents)
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_has_saved_all_that_it_reported_as_saved(path: Path) -> None:
    """Again and again, also while the file is replaced; both documents of a change or none."""
    chance = random.Random(7)
    acknowledged = 0
    for _ in range(5):
        command = [sys.executable, "-c", WRITER, str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for _ in range(chance.randint(1, 30)):
                acknowledged = int(writer.stdout.readline())
            writer.send_signal(signal.SIGKILL)
            rest = writer.stdout.read().split("\n")
            acknowledged = int(rest[-2]) if len(rest) > 1 else acknowledged
        found = RootFile(path).read()
        assert found["view", "n"] == found["ledger", "n"] >= acknowledged
        assert sorted(os.listdir(path.parent)) in ([path.name], [f".{path.name}", path.name])
