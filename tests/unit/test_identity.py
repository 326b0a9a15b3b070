"""The compute_id file: written once, never guessed again."""

import os
from pathlib import Path
from uuid import UUID, uuid4, uuid5

import pytest

from agent.nodes.identity import (
    FILE_NAME,
    NODES,
    IdentityError,
    IdentityNotReady,
    NodeTable,
    compute_id,
    replace_compute_id,
    saved_compute_id,
    saved_nodes,
)
from reportclient.forms import sealed
from tests.full_disk import full_disk

OWN = "5a0d7f3e-94c1-4b53-9d0e-6f1f6e2f3a10"


def root_uuids(
    nodes: list[str], own: str, from_driver: dict[str, str], before: dict[str, str]
) -> dict[str, str]:
    return NodeTable(_uuids=before).uuids(nodes, own, from_driver)


def test_a_new_host_gets_a_uuid_and_keeps_it(tmp_path: Path) -> None:
    first = compute_id(tmp_path)
    assert UUID(first).version == 4
    assert compute_id(tmp_path) == first
    assert os.listdir(tmp_path) == [FILE_NAME]


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
    with pytest.raises(IdentityError, match="is not a regular file"):
        compute_id(tmp_path)


def test_a_state_path_that_can_not_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(IdentityError, match=f"{tmp_path}/file/state/{FILE_NAME}"):
        compute_id(tmp_path / "file" / "state")


def test_what_a_killed_writer_left_is_no_identity(tmp_path: Path) -> None:
    (tmp_path / f".{FILE_NAME}").write_text(OWN[:10])
    assert compute_id(tmp_path) != OWN


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


def test_a_saved_uuid_that_the_driver_gives_to_another_node_is_given_up(tmp_path: Path) -> None:
    assert root_uuids(["a", "b"], OWN, {"b": OWN}, {"a": OWN}) == {
        "a": str(uuid5(UUID(OWN), "a")),
        "b": OWN,
    }


def test_a_table_with_one_uuid_for_two_nodes_heals(tmp_path: Path) -> None:
    table = NodeTable.in_directory(tmp_path)
    table.document.save({"own": OWN, "nodes": {"a": OWN, "b": OWN}})
    uuids = table.uuids(["a", "b"], OWN, {})
    assert uuids == {"a": OWN, "b": str(uuid5(UUID(OWN), "b"))}
    assert NodeTable.in_directory(tmp_path).uuids(["b", "a"], OWN, {}) == uuids
    assert saved_nodes(tmp_path) == uuids


def test_names_that_differ_in_case_only_dont_share_a_saved_uuid() -> None:
    assert len({*root_uuids(["NODE", "node"], OWN, {}, {"Node": OWN}).values()}) == 2


def test_two_nodes_that_need_one_uuid_are_both_named() -> None:
    node = str(uuid4())
    with pytest.raises(IdentityError, match=f"nodes a and {node} have one UUID, {node}"):
        root_uuids(["a", node], OWN, {"a": node}, {})


def test_a_full_disk_leaves_nothing_behind_and_the_next_start_works(tmp_path: Path):
    with full_disk():
        with pytest.raises(IdentityNotReady, match=r"No space left on device; .* some space left"):
            compute_id(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert compute_id(tmp_path) == compute_id(tmp_path)


# -- said twice


def reported(state_path: Path, *nodes: str) -> str:
    """A host that has reported these nodes; its UUID."""
    own = compute_id(state_path)
    NodeTable.in_directory(state_path).uuids(list(nodes or ["host"]), own, {})
    return own


def test_a_lost_file_is_written_again_as_the_table_of_nodes_has_it(tmp_path: Path, caplog) -> None:
    own = reported(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    assert saved_compute_id(tmp_path) == own
    assert not (tmp_path / FILE_NAME).exists()
    assert compute_id(tmp_path) == own
    assert (tmp_path / FILE_NAME).read_text() == f"{own}\n"
    assert f"{tmp_path / FILE_NAME} is missing" in caplog.text


def test_no_flipped_bit_makes_another_host_of_it(tmp_path: Path) -> None:
    """A bit of each byte of either file: the same UUIDs as before, or an error that names a file."""
    own = reported(tmp_path, "a", "b")
    uuids = NodeTable.in_directory(tmp_path).uuids(["a", "b"], own, {})
    for name in (FILE_NAME, NODES):
        path = tmp_path / name
        whole = path.read_bytes()
        for bit in range(0, len(whole) * 8, 7):
            path.write_bytes(flipped(whole, bit))
            try:
                assert compute_id(tmp_path) == own
                assert NodeTable.in_directory(tmp_path).uuids(["a", "b"], own, {}) == uuids
            except IdentityError as err:
                assert str(tmp_path) in str(err)
        path.write_bytes(whole)


def flipped(whole: bytes, bit: int) -> bytes:
    data = bytearray(whole)
    data[bit // 8] ^= 1 << bit % 8
    return bytes(data)


def test_files_that_disagree_are_both_named_and_neither_is_believed(tmp_path: Path) -> None:
    own = reported(tmp_path)
    (tmp_path / FILE_NAME).write_text(f"{OWN}\n")
    with pytest.raises(IdentityError, match=f"{OWN}.*{own}.*computectl adopt"):
        compute_id(tmp_path)
    assert (tmp_path / FILE_NAME).read_text() == f"{OWN}\n"


def test_who_adopts_is_believed_by_both_files(tmp_path: Path) -> None:
    own = reported(tmp_path, "a")
    other = (
        reported(tmp_path, "a", "b") and NodeTable.in_directory(tmp_path).uuids(["b"], own, {})["b"]
    )
    (tmp_path / FILE_NAME).write_text("damaged")
    replace_compute_id(tmp_path, OWN)
    assert compute_id(tmp_path) == OWN
    assert NodeTable.in_directory(tmp_path).uuids(["a", "b"], OWN, {}) == {"a": OWN, "b": other}


def test_a_provider_is_adopted_before_the_agents_first_start(tmp_path: Path) -> None:
    replace_compute_id(tmp_path / "lib" / "state", OWN)
    assert compute_id(tmp_path / "lib" / "state") == OWN


def test_a_damaged_table_makes_no_new_host(tmp_path: Path) -> None:
    reported(tmp_path)
    (tmp_path / FILE_NAME).unlink()
    (tmp_path / NODES).write_text("[" * 100_000)
    with pytest.raises(IdentityError, match=f"{tmp_path / NODES} is damaged: nested too deeply"):
        compute_id(tmp_path)
    assert not (tmp_path / FILE_NAME).exists()


def test_a_table_without_a_field_names_it_and_the_next_step(tmp_path: Path) -> None:
    nodes = tmp_path / NODES
    nodes.write_bytes(sealed({"version": 1, "own": OWN, "nodes": {"a": OWN}}))
    with pytest.raises(IdentityError, match="damaged: it has no field 'machine'; restore it, or"):
        compute_id(tmp_path)


def test_a_table_without_its_checksum_is_damaged(tmp_path: Path) -> None:
    text = f'{{"version": 1, "own": "{OWN}", "nodes": {{"a": "{OWN}"}}}}'
    (tmp_path / NODES).write_text(text)
    with pytest.raises(IdentityError, match="has no checksum"):
        compute_id(tmp_path)
