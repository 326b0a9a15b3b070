"""Tests are skipped for want of a server or a program, with the reason; no other is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import needs


class Item:
    """A test with fixtures and a mark."""

    def __init__(self, *names: str, fixtures: tuple[str, ...] = ()) -> None:
        self.fixturenames, self.names = fixtures, names
        self.reasons: list[str] = []

    def iter_markers(self, _: str) -> Iterator[pytest.Mark]:
        yield pytest.Mark("needs", self.names, {}, _ispytest=True)

    def add_marker(self, mark: pytest.MarkDecorator) -> None:
        self.reasons.append(mark.kwargs["reason"])


def test_a_test_is_skipped_for_each_thing_that_its_marks_and_fixtures_need(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(needs.SERVERS, "rabbitmq", lambda: "no broker")
    needs.missing.cache_clear()
    items = [
        Item(),
        Item("sh", fixtures=("tmp_path",)),
        Item("no-such-program", "sh", fixtures=("broker",)),
    ]
    needs.pytest_collection_modifyitems(items)  # type: ignore[arg-type]
    needs.missing.cache_clear()
    assert [item.reasons for item in items] == [
        [],
        [],
        ["no broker", "no-such-program is not installed"],
    ]
