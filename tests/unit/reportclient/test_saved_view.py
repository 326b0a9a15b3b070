"""A view that a store of the client library keeps as bytes."""

from __future__ import annotations

import pytest

from reportclient.model import Inventory, Provider
from reportclient.names import Names
from reportclient.saved_view import UnusableView, dump_view, load_view
from reportclient.snapshot import Snapshot
from reportclient.view import View

ROOT = "c0ffee00-0000-4000-8000-000000000001"
CHILD = "c0ffee00-0000-4000-8000-000000000002"
VIEW = View(
    Snapshot.build(
        [
            Provider(ROOT, "host", None, {"VCPU": Inventory(8, 1)}, frozenset({"CUSTOM_A"})),
            Provider(CHILD, "gpu", ROOT, {}, frozenset(), frozenset({ROOT})),
        ]
    ),
    {ROOT: 3, CHILD: 1},
    Names(frozenset({"CUSTOM_A"}), frozenset({"VCPU"}), frozenset({"HW_X"})),
    frozenset(),
    {ROOT: {"DISK_GB": 2}},
)


def test_it_is_the_same_again_and_has_to_be_verified() -> None:
    assert load_view(dump_view(VIEW, ROOT), ROOT) == VIEW.stale()


@pytest.mark.parametrize("data", [b"", b"[]", b"[" * 200_000, b"{}\n{}", dump_view(VIEW, CHILD)])
def test_anything_else_is_refused_with_the_root(data: bytes) -> None:
    with pytest.raises(UnusableView, match=ROOT):
        load_view(data, ROOT)


def test_no_flipped_bit_is_believed() -> None:
    data = dump_view(VIEW, ROOT)
    for bit in range(0, len(data) * 8, 41):
        other = bytearray(data)
        other[bit // 8] ^= 1 << bit % 8
        try:
            assert load_view(bytes(other), ROOT) == VIEW.stale()
        except UnusableView:
            continue
