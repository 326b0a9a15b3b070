"""Reads what is going to be asked for while the first answers are still being read."""

from __future__ import annotations

from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from reportclient.http import API

AT_ONCE = 8
"""How many requests are on their way at the same time."""
PARTS = ("inventories", "traits", "aggregates")


@dataclass(slots=True)
class ReadAhead:
    """An API that, once it has listed providers, fetches their parts on ``pool``.

    For a view that knows nothing yet: whoever reads that wants all parts.
    """

    api: API
    pool: Executor
    _coming: dict[str, Future[dict[str, Any]]] = field(default_factory=dict)

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        coming = self._coming.pop(path, None) if method == "GET" else None
        if coming is not None:
            return coming.result()
        reply = self.api.request(method, path, json=json, needs=needs)
        for listed in reply.get("resource_providers", ()):
            for part in PARTS:
                ahead = f"/resource_providers/{listed['uuid']}/{part}"
                self._coming[ahead] = self.pool.submit(self.api.request, "GET", ahead)
        return reply
