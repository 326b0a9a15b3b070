"""The database interface of the store of service records."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

R = TypeVar("R")


class Duplicate(Exception):
    """A row with such a unique value is there already."""


class Transaction(Protocol):
    """Statements within a transaction; values have names, as in ``:host``."""

    def rows(self, sql: str, **values: Any) -> Sequence[Mapping[str, Any]]:
        """Return the selected rows."""

    def change(self, sql: str, **values: Any) -> int:
        """How many rows an INSERT, UPDATE or DELETE met."""


class Database(Protocol):
    """Where the table ``services`` is."""

    @property
    def now(self) -> str:
        """Seconds since the epoch by the database's clock, with a fraction, in its words."""

    @property
    def binary(self) -> str:
        """The column of this name, which is a reserved word in some."""

    @property
    def safe_url(self) -> str:
        """The URL, without its password."""

    def upgrade(self) -> None:
        """Bring the schema up to date, once, whoever else tries to at the same time.

        :raises RegistryUnavailable: the database can't be reached, or can't be changed.
        """

    def run(self, work: Callable[[Transaction], R]) -> R:
        """Run ``work`` in a transaction, again where the database chose it to make way.

        Of its statements the first one writes, if any does: SQLite then waits for its turn.

        :raises Duplicate: see there.
        :raises InputRefused: the database does not take such values.
        :raises RegistryUnavailable: it is away, broken, or too busy.
        """

    def dispose(self) -> None:
        """Close what is open."""
