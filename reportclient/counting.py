"""How many requests one period of one root takes, and what was done with them."""

from typing import Any

from reportclient.http import API
from reportclient.plan import Operation


class Counting:
    """An API that counts its calls, and what was done with it, for one period."""

    def __init__(self, api: API) -> None:
        self._api = api
        self.calls = 0
        self.tries = 1
        """How often it was begun: more than once where somebody else wrote in between."""
        self.done: list[Operation] = []

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        self.calls += 1
        return self._api.request(method, path, json=json, needs=needs)
