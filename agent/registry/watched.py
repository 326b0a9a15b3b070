"""A database of which it is known whether it answers: for the log, and for whoever counts."""

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass

from agent.registry.database import Database, R, Statements
from agent.registry.errors import RegistryUnavailable

LOG = logging.getLogger(__name__)

Heard = Callable[[float, bool], object]
"""Hears of each transaction: its seconds, and whether the database answered."""


def _unheard(seconds: float, answered: bool) -> None:
    """Nobody counts."""


@dataclass(slots=True)
class WatchedDatabase:
    """The same database.

    A thousand agents ask, and people over REST: that it is away is logged once, and once that it
    is back.
    """

    database: Database
    heard: Heard = _unheard
    lost: bool = False

    @property
    def now(self) -> str:
        """See :class:`agent.registry.database.Database`, also for what follows."""
        return self.database.now

    @property
    def binary(self) -> str:
        """The column of this name."""
        return self.database.binary

    @property
    def shown(self) -> str:
        """The URL, without its password."""
        return self.database.shown

    def upgrade(self) -> None:
        """Bring the schema up to date."""
        self.database.upgrade()

    def run(self, work: Callable[[Statements], R]) -> R:
        """Run ``work`` in a transaction."""
        began, answered = time.monotonic(), True
        try:
            return self.database.run(work)
        except RegistryUnavailable as err:
            answered = False
            if not self.lost:
                LOG.warning("The database is lost: %s", err)
            self.lost = True
            raise
        finally:
            if answered and self.lost:
                self.lost = False
                LOG.info("The database is back")
            self.heard(time.monotonic() - began, answered)

    def dispose(self) -> None:
        """Close what is open."""
        self.database.dispose()
