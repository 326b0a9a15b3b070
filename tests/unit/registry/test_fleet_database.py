"""The fleet's database: whatever fails in a connection it is away."""

import logging
import sqlite3

import pytest
import sqlalchemy as sa

from agent.errors import RegistryUnavailable
from compute_registry.database import fleet_database
from compute_registry.database.fleet_database import FleetDatabase
from tests.registries import watched_registry
from tests.unit.registry.fakes import EmptyDatabase

ERRORS = [
    NotImplementedError(),  # SQLAlchemy, about its first connection
    UnicodeDecodeError("utf-8", b"\xc3", 0, 1, "invalid"),
    AssertionError("Result length not requested length"),
    OSError(104, "reset"),
]
"""Seen when a connection to MariaDB was cut or damaged at a random byte."""


class Server:
    """SQLite, where each attempt to connect first raises the next of ``errors``."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        engine = sa.create_engine("sqlite://", creator=self.connect, poolclass=sa.NullPool)
        self.database = FleetDatabase(engine)

    def connect(self) -> sqlite3.Connection:
        if self.errors:
            raise self.errors.pop(0)
        return sqlite3.connect(":memory:")

    def ask(self) -> int:
        return self.database.run(lambda sql: sql.execute(sa.text("SELECT 1")).scalar_one())


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_any_error_of_a_new_connection_is_an_error_of_the_database(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fleet_database, "RETRIED_WITHIN", 0.0)
    server = Server(*[error] * 100)
    with pytest.raises(RegistryUnavailable, match="can't open a connection: ."):
        server.ask()
    with pytest.raises(RegistryUnavailable, match="check that the database is up"):
        server.database.prepare()


def test_a_connection_that_was_lost_while_it_was_opened_is_opened_again() -> None:
    assert Server(NotImplementedError()).ask() == 1


def test_an_error_of_the_work_itself_stays_what_it_is() -> None:
    def work(_: sa.Connection) -> None:
        raise NotImplementedError

    with pytest.raises(NotImplementedError):
        Server().database.run(work)


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
