"""Stop sending requests for the rest of a period once Placement is unreachable."""

from dataclasses import dataclass
from typing import Any

from reportclient.errors import Unreachable
from reportclient.http import API


@dataclass(slots=True)
class Breaker:
    """A circuit breaker around Placement's API, shared by all roots.

    After ``after`` requests in a row without an answer, all further requests of the period fail at
    once with the last error.  ``after`` 0: never.
    """

    api: API
    after: int = 8
    _unanswered: int = 0
    _last_error: Unreachable | None = None

    def close(self) -> None:
        """Allow requests again: a new period begins."""
        self._unanswered, self._last_error = 0, None

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        if self._last_error is not None:
            raise self._last_error
        try:
            answer = self.api.request(method, path, json=json, needs=needs)
        except Unreachable as err:
            self._unanswered += 1
            if self.after and self._unanswered >= self.after:
                self._last_error = err
            raise
        self._unanswered = 0
        return answer
