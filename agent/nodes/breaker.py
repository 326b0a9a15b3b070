"""Stop sending requests for the rest of a period once Placement is unreachable."""

from dataclasses import dataclass
from typing import Any

from reportclient.errors import Unreachable
from reportclient.http import API


@dataclass(slots=True)
class Breaker:
    """A circuit breaker around Placement's API, shared by all roots.

    After ``after`` requests in a row without an answer, all further requests of the period fail at
    once with the error of the last one.  With ``after`` 0 none does.
    """

    api: API
    after: int = 8
    _silent: int = 0
    _why: Unreachable | None = None

    def close(self) -> None:
        """Allow requests again: a new period begins."""
        self._silent, self._why = 0, None

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        if self._why is not None:
            raise self._why
        try:
            answer = self.api.request(method, path, json=json, needs=needs)
        except Unreachable as err:
            self._silent += 1
            if self.after and self._silent >= self.after:
                self._why = err
            raise
        self._silent = 0
        return answer
