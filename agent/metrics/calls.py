"""Calls to Placement, measured: a door before the door."""

import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from reportclient.errors import PlacementError
from reportclient.http import API

CallTold = Callable[[str, str, str, float], object]
"""Hears of each call: method, route, outcome, seconds."""
OK, ERROR = "ok", "error"
_UUID = re.compile(r"/[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?=/|$)")
_NAMED = re.compile(r"/(traits|resource_classes|inventories)/[^/]+$")
_WORDS = re.compile(r"(?<=[a-z])(?=[A-Z])")


@dataclass(frozen=True, slots=True)
class Measured:
    """The same API; each call is told."""

    api: API
    told: CallTold

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        began, outcome = time.monotonic(), ERROR
        try:
            answer = self.api.request(method, path, json=json, needs=needs)
            outcome = OK
        except PlacementError as err:
            outcome = outcome_of(err)
            raise
        finally:
            self.told(method, route_of(path), outcome, time.monotonic() - began)
        return answer


def route_of(path: str) -> str:
    """The path with what varies taken out, for a label with few values.

    >>> route_of("/resource_providers/c0ffee00-0000-4000-8000-000000000001/traits?x=1")
    '/resource_providers/{uuid}/traits'
    """
    return _NAMED.sub(r"/\1/{name}", _UUID.sub("/{uuid}", path.partition("?")[0]))


def outcome_of(err: PlacementError) -> str:
    """The kind of error: ``conflict``, ``unreachable``, ``in_use``, ``rejected`` …"""
    return _WORDS.sub("_", type(err).__name__).lower()
