"""Results of the last settlement, since a quiet period settles the same again."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, ParamSpec, TypeVar

from agent.ownership.ledger import Ledger
from agent.ownership.statement import DriverStatements, driver_statements
from reportclient.provider_tree import ProviderTree

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class ResultCache:
    """Last results of one root: each driver's statements, and functions with their arguments."""

    spoken: dict[str, DriverStatements] = field(default_factory=dict)
    _results: dict[object, tuple[object, Any]] = field(default_factory=dict)

    def driver_statements(
        self, driver: str, tree: ProviderTree, ledger: Ledger
    ) -> DriverStatements:
        """See :func:`agent.ownership.statement.driver_statements`."""
        last = self.spoken.get(driver)
        self.spoken[driver] = spoken = driver_statements(driver, tree, ledger, last)
        return spoken

    def cached(self, name: object, pure: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a function, computed only if its arguments have changed."""
        asked = args, kwargs
        if name not in self._results or self._results[name][0] != asked:
            self._results[name] = asked, pure(*args, **kwargs)
        result: T = self._results[name][1]
        return result
