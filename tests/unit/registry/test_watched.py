"""That the database is away is said once, whoever asks, and once that it is back."""

import logging

import pytest

from agent.registry.errors import RegistryUnavailable
from tests.registries import watched_registry
from tests.unit.registry.fakes import EmptyDatabase


def test_a_database_that_is_lost_and_back_is_a_line_each_whoever_asks(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO, "compute_registry.store")
    database, heard = EmptyDatabase(), []
    database.away = "connection refused"
    store = watched_registry(database, lambda _, answered: heard.append(answered))
    for _ in range(3):
        with pytest.raises(RegistryUnavailable):
            store.list_services()
    database.away = ""
    for _ in range(3):
        store.list_services()
    assert caplog.messages == [
        "The database does not answer: connection refused",
        "The database answers again",
    ]
    assert heard == [False] * 3 + [True] * 3
