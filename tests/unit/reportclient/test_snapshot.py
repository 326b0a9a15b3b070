"""What a snapshot is built of, and what is refused."""

import re

import pytest

from reportclient.model import Provider
from reportclient.snapshot import Snapshot

HOST, CARD = Provider("u1", "host"), Provider("u2", "card", "u1")


def test_providers_come_in_any_order_and_are_walked_parents_first() -> None:
    snapshot = Snapshot.build([CARD, HOST])
    assert [provider.name for provider in snapshot.walk()] == ["host", "card"]
    assert snapshot == Snapshot.build([HOST, CARD])


@pytest.mark.parametrize(
    ("provider", "error"),
    [
        (Provider("u1", "other"), "duplicate provider other (u1)"),
        (Provider("u3", "card"), "duplicate provider card (u3)"),
        (Provider("u3", "leaf", "u9"), "missing parent providers: u8, u9"),
        (Provider("u9", "leaf", "u9"), "missing parent providers: u8"),
        (
            Provider("u8", "leaf", "u8"),
            "some providers are their own ancestors: the parents form a cycle",
        ),
    ],
)
def test_what_is_no_forest_is_refused_with_the_providers_at_fault(
    provider: Provider, error: str
) -> None:
    orphans = [Provider("u7", "orphan", "u8")]
    with pytest.raises(ValueError, match=f"^{re.escape(error)}$"):
        Snapshot.build([HOST, CARD, provider, *orphans])
