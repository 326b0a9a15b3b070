"""Waiting for PostgreSQL: as long as its answer may take, and no longer."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest
from psycopg2 import OperationalError, extensions

from compute_registry.database import postgresql


class Connection:
    """psycopg2's, whose answer is what comes over a socket."""

    def __init__(self, ours: socket.socket, *states: int) -> None:
        self.ours, self.states = ours, list(states)

    def poll(self) -> int:
        return self.states.pop(0)

    def fileno(self) -> int:
        return self.ours.fileno()


@pytest.fixture
def sockets() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, servers = socket.socketpair()
    with ours, servers:
        yield ours, servers


def test_a_server_that_does_not_answer_is_given_up(
    sockets: tuple[socket.socket, socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgresql, "ANSWER_WITHIN", 0.0)
    with pytest.raises(OperationalError, match="timed out: no answer within 0 s"):
        postgresql.wait_for_answer(Connection(sockets[0], *[extensions.POLL_READ] * 9))


def test_an_answer_is_awaited_after_what_was_sent(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    ours, servers = sockets
    servers.send(b"an answer")
    states = [extensions.POLL_WRITE, extensions.POLL_READ, extensions.POLL_OK]
    connection = Connection(ours, *states)
    postgresql.wait_for_answer(connection)
    assert connection.states == []


def test_a_connection_in_an_unknown_state_is_an_error(
    sockets: tuple[socket.socket, socket.socket],
) -> None:
    with pytest.raises(OperationalError, match="unexpected state 3"):
        postgresql.wait_for_answer(Connection(sockets[0], extensions.POLL_ERROR))
