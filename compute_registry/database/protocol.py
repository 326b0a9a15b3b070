"""The database interface of the store of service records."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

R = TypeVar("R")


class Duplicate(Exception):
    """Another row has the same value in a unique column."""


class Transaction(Protocol):
    """Statements within a transaction; values have names, as in ``:host``."""

    def rows(self, sql: str, **values: Any) -> Sequence[Mapping[str, Any]]:
        """Return the selected rows."""

    def change(self, sql: str, **values: Any) -> int:
        """Run an INSERT, UPDATE or DELETE, and return the number of rows."""


class Database(Protocol):
    """The database with the table ``services``."""

    @property
    def now(self) -> str:
        """SQL for the seconds since the epoch, with a fraction, by the database's clock."""

    @property
    def clock(self) -> str:
        """SQL for a clock in seconds that stands still while no registry records heartbeats."""

    @property
    def tick(self) -> str:
        """SQL that keeps ``clock`` going; empty if nothing has to."""

    @property
    def binary(self) -> str:
        """SQL for the column ``binary``, which is a reserved word in some databases."""

    @property
    def safe_url(self) -> str:
        """The URL, without its password."""

    def upgrade(self) -> None:
        """Create or upgrade the schema; several processes may do so at the same time.

        :raises RegistryUnavailable: the database can't be reached, or can't be changed.
        """

    def run(self, work: Callable[[Transaction], R]) -> R:
        """Run ``work`` in a transaction, and again after a deadlock.

        If ``work`` writes at all, its first statement has to: then SQLite waits for the lock.

        :raises Duplicate: another row has a unique value.
        :raises InputRefused: the database refused the values.
        :raises RegistryUnavailable: the database can't be reached, is damaged, or too busy.
        """

    def dispose(self) -> None:
        """Close what is open."""
