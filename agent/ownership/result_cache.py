"""A cache of one root's last results: a quiet period would compute the same again."""

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
    """The last statements of each driver, and the last result of each cached function."""

    statements: dict[str, DriverStatements] = field(default_factory=dict)
    _results: dict[object, tuple[object, Any]] = field(default_factory=dict)

    def driver_statements(
        self, driver: str, tree: ProviderTree, ledger: Ledger
    ) -> DriverStatements:
        """Return a driver's statements: :func:`agent.ownership.statement.driver_statements`."""
        last = self.statements.get(driver)
        self.statements[driver] = result = driver_statements(driver, tree, ledger, last)
        return result

    def cached(self, name: object, pure: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Return the result of a pure function, computed only if its arguments have changed."""
        arguments = args, kwargs
        if name not in self._results or self._results[name][0] != arguments:
            self._results[name] = arguments, pure(*args, **kwargs)
        result: T = self._results[name][1]
        return result
