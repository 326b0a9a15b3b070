"""What is kept of each root: one file, small writes, never half of a change."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agent.state import records
from agent.state.roots import FILE_NAME, RootStore

ONE, TWO = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"
VIEW = ("view", ONE)
FIRST = {VIEW: {"name": "host", "inventory": {"VCPU": 4}}, ("ledger", "libvirt"): ["a", "b"]}
SECOND = {("view", TWO): {"name": "other"}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / FILE_NAME


@pytest.fixture
def store(tmp_path: Path) -> RootStore:
    return RootStore.in_directory(tmp_path)


def kept(store: RootStore, root: str = ONE) -> Any:
    """As the next process finds it."""
    assert store.path is not None
    return RootStore(store.path, writing=False).documents_of(root)


def test_what_was_kept_is_there_again_root_by_root(store: RootStore) -> None:
    assert store.documents_of(ONE) == {}
    assert store.replace(ONE, FIRST)
    assert store.replace(TWO, SECOND)
    assert kept(store) == FIRST
    assert kept(store, TWO) == SECOND
    assert RootStore.in_directory(store.path.parent).roots() == [ONE, TWO]


def test_documents_are_changed_and_removed_one_by_one(store: RootStore) -> None:
    store.replace(ONE, FIRST)
    store.replace(TWO, SECOND)
    assert store.save(ONE, {VIEW: {"name": "new"}, ("view", "x"): 1}, [("ledger", "libvirt")])
    assert kept(store) == {VIEW: {"name": "new"}, ("view", "x"): 1}
    assert kept(store, TWO) == SECOND


def test_a_root_is_forgotten_and_can_come_back(store: RootStore) -> None:
    store.replace(ONE, FIRST)
    assert store.forget(ONE)
    assert (kept(store), store.roots()) == ({}, [])
    assert not store.save(ONE, SECOND)
    assert store.replace(ONE, SECOND)
    assert kept(store) == SECOND


def test_who_loaded_a_root_goes_on_with_small_changes(store: RootStore) -> None:
    store.replace(ONE, FIRST)
    again = RootStore.in_directory(store.path.parent)
    assert again.documents_of(ONE) == FIRST
    assert again.save(ONE, {}, [VIEW])
    assert VIEW not in kept(again)
    assert again.documents_of(ONE) == kept(again)


def test_nothing_changed_is_no_write(store: RootStore, path: Path) -> None:
    store.replace(ONE, FIRST)
    size = path.stat().st_size
    assert store.save(ONE, {})
    assert path.stat().st_size == size


def test_a_small_change_of_a_large_root_is_a_small_write(store: RootStore, path: Path) -> None:
    store.replace(ONE, large(10_001))
    before = path.stat()
    assert store.save(ONE, {("view", "7"): {"changed": True}})
    assert path.stat().st_ino == before.st_ino
    assert path.stat().st_size - before.st_size < 200
    assert kept(store)["view", "7"] == {"changed": True}
    assert len(kept(store)) == 10_001


def large(number: int) -> dict[records.Key, Any]:
    return {("view", str(each)): {"name": f"provider {each}" * 10} for each in range(number)}


def test_a_thousand_roots_are_one_file(store: RootStore, path: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "fsync", lambda _: None)
    names = [f"{number:08}" for number in range(1000)]
    for name in names:
        assert store.replace(name, FIRST)
    assert os.listdir(path.parent) == [FILE_NAME]
    again = RootStore.in_directory(path.parent)
    assert again.roots() == names
    assert all(again.documents_of(name) == FIRST for name in names)


def test_the_file_does_not_grow_for_ever(path: Path) -> None:
    store = RootStore(path, slack=1000)
    store.replace(TWO, SECOND)
    for number in range(300):
        assert store.replace(ONE, {**FIRST, ("view", "x"): number})
    assert path.stat().st_size < 3000
    assert kept(store) == {**FIRST, ("view", "x"): 299}
    assert kept(store, TWO) == SECOND
    assert RootStore(path, slack=1000).save(TWO, SECOND) is False  # was not loaded


def test_every_prefix_of_the_file_is_a_state_that_there_was(store: RootStore, path: Path) -> None:
    """What a killed writer, or a power cut, leaves."""
    states = [{}, FIRST, {**FIRST, VIEW: 2}, {VIEW: 2}]
    store.replace(ONE, FIRST)
    store.save(ONE, {VIEW: 2})
    store.save(ONE, {}, [("ledger", "libvirt")])
    whole = path.read_bytes()
    seen = []
    for end in range(len(whole) + 1):
        for tail in (b"", b"\0" * 100):
            path.write_bytes(whole[:end] + tail)
            found = RootStore(path).documents_of(ONE)
            assert found in states
            seen.append(states.index(found))
    assert seen == sorted(seen)
    assert set(seen) == {0, 1, 2, 3}


def test_what_was_cut_off_is_written_over(store: RootStore, path: Path) -> None:
    store.replace(ONE, FIRST)
    path.write_bytes(path.read_bytes() + b"0123456789abcdef half a rec")
    again = RootStore(path)
    assert again.documents_of(ONE) == FIRST
    assert again.save(ONE, {VIEW: 3})
    assert kept(again) == {**FIRST, VIEW: 3}


def test_after_any_cut_all_that_was_whole_and_what_is_kept_next_is_read(
    store: RootStore, path: Path
) -> None:
    """Also where just the end of the last line is missing."""
    store.replace(ONE, FIRST)
    before = len(path.read_bytes())
    store.save(ONE, {VIEW: 2})
    whole = path.read_bytes()
    for end in range(before, len(whole) + 1):
        path.write_bytes(whole[:end])
        again = RootStore(path)
        found = again.documents_of(ONE)
        assert found == ({**FIRST, VIEW: 2} if end == len(whole) else FIRST)
        assert again.replace(TWO, SECOND)
        last = RootStore(path)
        assert (last.documents_of(ONE), last.documents_of(TWO)) == (found, SECOND), end


def test_no_flipped_bit_gives_something_else(store: RootStore, path: Path, caplog) -> None:
    """A bit of each byte: all as before, or nothing of that root, and a line that says so."""
    store.replace(ONE, FIRST)
    store.replace(TWO, SECOND)
    store.save(ONE, {VIEW: 2})
    whole = path.read_bytes()
    lost = 0
    for at in range(len(whole)):
        data = bytearray(whole)
        data[at] ^= 1 << at % 8
        path.write_bytes(data)
        again, caplog.records[:] = RootStore(path), []
        found = again.documents_of(ONE), again.documents_of(TWO)
        assert found[0] in ({**FIRST, VIEW: 2}, {})
        assert found[1] in (SECOND, {})
        lost += {} in found
        assert bool(caplog.records) == ({} in found)
    assert lost > len(whole) / 2


def test_a_damaged_document_costs_one_root_until_it_is_replaced(
    store: RootStore, path: Path, caplog
) -> None:
    store.replace(ONE, FIRST)
    store.replace(TWO, SECOND)
    path.write_bytes(path.read_bytes().replace(b'"host"', b'"h0st"'))
    again = RootStore(path)
    assert (again.documents_of(ONE), again.documents_of(TWO)) == ({}, SECOND)
    assert f"The saved state of the root {ONE} in {path} is damaged" in caplog.text
    assert not again.save(ONE, {VIEW: 1})
    assert again.replace(ONE, FIRST)
    assert kept(again) == FIRST


@pytest.mark.parametrize("data", [b"\n", b"{}\n", b"[" * 9000 + b"\n", b"SQLite format 3\0.\n"])
def test_what_is_no_such_file_is_set_aside(path: Path, caplog, data: bytes) -> None:
    path.write_bytes(data)
    looking = RootStore(path, writing=False)
    assert looking.documents_of(ONE) == {}
    assert path.read_bytes() == data
    store = RootStore(path)
    assert store.documents_of(ONE) == {}
    assert path.with_name(f"{FILE_NAME}.damaged").read_bytes() == data
    assert "is damaged" in caplog.text
    assert store.replace(ONE, FIRST)
    assert kept(store) == FIRST


def test_a_later_versions_file_is_refused_and_left_alone(path: Path) -> None:
    data = records.encode_records(2, {ONE: FIRST})
    path.write_bytes(data)
    store = RootStore(path)
    assert store.documents_of(ONE) == {}
    assert not store.replace(ONE, SECOND)
    assert not store.forget(ONE)
    assert path.read_bytes() == data
    assert "a later compute-agent wrote it" in store.problem


def test_a_full_disk_is_told_once_and_leaves_what_was_kept(
    store: RootStore, path: Path, monkeypatch
) -> None:
    store.replace(ONE, FIRST)
    store.replace(TWO, SECOND)
    whole = path.read_bytes()
    with monkeypatch.context() as full:
        full.setattr(os, "pwrite", half)
        assert not store.save(ONE, {VIEW: 1})
        assert not store.save(ONE, {VIEW: 1})
        assert not store.replace(ONE, {VIEW: 1})
        assert path.read_bytes() == whole
        assert store.problem == f"{path} can't be written: No space left on device"
    assert not store.save(ONE, {VIEW: 2})
    assert store.replace(ONE, {VIEW: 2})
    assert store.save(TWO, {VIEW: 3})
    assert (kept(store), kept(store, TWO)) == ({VIEW: 2}, {**SECOND, VIEW: 3})


def half(descriptor: int, data: bytes, offset: int) -> int:
    """As much as there was space for, and then no more."""
    if len(data) > 10:
        return os.pwritev(descriptor, [data[:10]], offset)
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_directory_that_can_not_be_written_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    store = RootStore.in_directory(tmp_path / "file")
    assert store.documents_of(ONE) == {}
    assert not store.replace(ONE, FIRST)
    assert not store.replace(ONE, FIRST)
    assert "can't be written" in store.problem


def test_a_file_that_somebody_took_away_is_made_anew_with_all_roots(
    store: RootStore, path: Path
) -> None:
    store.replace(ONE, FIRST)
    store.replace(TWO, SECOND)
    path.unlink()
    assert not store.save(ONE, {VIEW: 1})
    assert store.replace(ONE, FIRST)
    assert not store.save(TWO, {VIEW: 1})
    assert kept(store) == FIRST


def test_a_file_that_is_taken_away_after_it_was_read_has_no_hole(
    store: RootStore, path: Path
) -> None:
    store.replace(ONE, FIRST)
    again = RootStore(path)
    again.documents_of(ONE)
    path.unlink()
    assert again.replace(TWO, SECOND)
    assert (kept(again), kept(again, TWO)) == ({}, SECOND)


def test_no_link_is_followed(path: Path) -> None:
    victim = path.with_name("victim")
    victim.write_text("")
    path.symlink_to(victim)
    store = RootStore(path)
    assert not store.replace(ONE, FIRST)
    assert victim.read_text() == ""
    assert "symbolic link" in store.problem


def test_without_a_directory_nothing_is_kept_and_nothing_is_wrong() -> None:
    store = RootStore()
    assert store.replace(ONE, FIRST)
    assert store.save(ONE, {VIEW: 1})
    assert (store.documents_of(ONE), store.roots()) == ({}, [])


WRITER = """
import sys
from pathlib import Path
from agent.state.roots import RootStore
store = RootStore(Path(sys.argv[1]), slack=500)
number = store.documents_of("root").get(("view", "n"), 0)
store.replace("root", {("view", "n"): number, ("ledger", "n"): number})
while True:
    number += 1
    assert store.save("root", {("view", "n"): number, ("ledger", "n"): number})
    print(number, flush=True)
"""


@pytest.mark.slow
def test_a_killed_writer_has_kept_all_that_it_was_told_was_kept(path: Path) -> None:
    """Again and again, also while the file is written anew; both documents of a change or none."""
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
        found = RootStore(path).documents_of("root")
        assert found["view", "n"] == found["ledger", "n"] >= acknowledged
        assert os.listdir(path.parent) in ([path.name], [f".{path.name}", path.name])
