"""The compute_id file: written once, never guessed again."""

from __future__ import annotations

import errno
import os
import threading
from pathlib import Path
from uuid import UUID, uuid4, uuid5

import pytest

from agent.nodes.identity import FILE_NAME, IdentityError, compute_id, root_uuids

OWN = "5a0d7f3e-94c1-4b53-9d0e-6f1f6e2f3a10"


def test_a_new_host_gets_a_uuid_and_keeps_it(tmp_path: Path) -> None:
    first = compute_id(tmp_path / "state")
    assert UUID(first).version == 4
    assert compute_id(tmp_path / "state") == first
    assert os.listdir(tmp_path / "state") == [FILE_NAME]


def test_what_nova_wrote_is_read(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).write_text(f"{OWN.upper()}\n\n")
    assert compute_id(tmp_path) == OWN


@pytest.mark.parametrize("text", ["", "\n", "1234", f"{OWN} {OWN}", OWN[:-1], "\0" * 37])
def test_a_damaged_file_is_refused_and_left_as_it_is(tmp_path: Path, text: str) -> None:
    path = tmp_path / FILE_NAME
    path.write_text(text)
    with pytest.raises(IdentityError, match=str(path)):
        compute_id(tmp_path)
    assert path.read_text() == text


def test_a_file_that_is_no_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).mkdir()
    with pytest.raises(IdentityError, match="Is a directory"):
        compute_id(tmp_path)


def test_a_state_path_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IdentityError, match=f"{tmp_path}/file/state/{FILE_NAME}"):
        compute_id(tmp_path / "file" / "state")


def test_two_at_once_agree(tmp_path: Path) -> None:
    found: list[str] = []
    start = threading.Barrier(8)

    def ask(number: int) -> None:
        start.wait()
        found.append(compute_id(tmp_path))

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8
    assert set(found) == {compute_id(tmp_path)}


def test_what_a_killed_writer_left_is_no_identity(tmp_path: Path) -> None:
    (tmp_path / f".{FILE_NAME}.{OWN}").write_text(OWN[:10])
    assert compute_id(tmp_path) != OWN


def test_a_single_node_gets_the_hosts_own_uuid() -> None:
    assert root_uuids(["anything"], OWN, {}, {}) == {"anything": OWN}


def test_a_driver_that_knows_its_nodes_decides() -> None:
    told = str(uuid4())
    assert root_uuids(["a"], OWN, {"a": told}, {"a": OWN}) == {"a": told}
    assert root_uuids(["a", "b"], OWN, {"a": told}, {})["a"] == told


def test_nodes_named_by_a_uuid_keep_it() -> None:
    node = str(uuid4())
    assert root_uuids([node, "b"], OWN, {}, {})[node] == node


def test_several_nodes_get_uuids_that_stay() -> None:
    found = root_uuids(["a", "b"], OWN, {}, {})
    assert found == {name: str(uuid5(UUID(OWN), name)) for name in ("a", "b")}
    assert root_uuids(["b", "c", "a"], OWN, {}, {})["a"] == found["a"]


def test_a_full_disk_leaves_nothing_behind_and_the_next_start_works(tmp_path: Path, monkeypatch):
    with monkeypatch.context() as full:
        full.setattr(os, "fsync", no_space)
        with pytest.raises(IdentityError, match=r"No space left on device; .* some space left"):
            compute_id(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert compute_id(tmp_path) == compute_id(tmp_path)


def no_space(descriptor: int) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
