"""Placement with a meter: how many calls were made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from reportclient.http import API


@dataclass(slots=True)
class Counted:
    """``calls`` so far; for a command that asks from several threads it may be short by some."""

    api: API
    calls: int = 0

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        self.calls += 1
        return self.api.request(method, path, json=json, needs=needs)
