"""A fake Placement in memory, with the interface of :class:`reportclient.http.API`.

It executes one request at a time, in any thread, records it and can fail on demand.  A request
that it does not model raises :class:`AssertionError`, so that no test relies on an invented answer.
"""

import re
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from reportclient.errors import PlacementError, TooOld
from reportclient.forms import parse_microversion
from reportclient.http import OLDEST, version_for
from reportclient.testing.fake_endpoints import ROUTES, Call, Endpoints


class Recorded(NamedTuple):
    """A request that was sent; ``body`` is a copy."""

    method: str
    path: str
    body: Any

    @property
    def is_write(self) -> bool:
        return self.method != "GET"


@dataclass
class Failure:
    method: str
    path: re.Pattern[str]
    error: PlacementError
    after: bool


class FakePlacement(Endpoints):
    """``microversion`` is the newest that it supports; see :meth:`request` and :meth:`answer`.

    With ``ignores_case`` it compares names of providers as a Placement with a MariaDB does.
    """

    def __init__(self, microversion: str = "1.39", *, ignores_case: bool = False) -> None:
        super().__init__()
        self.store.ignores_case = ignores_case
        self.requests: list[Recorded] = []
        self.microversion = microversion
        self.failures: list[Failure] = []
        """Those of :meth:`fail_next` that have not occurred yet."""
        self._lock = Lock()

    # -- for the code under test

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """Send a request with the microversion that it needs, as ``reportclient.http.API`` does."""
        version = version_for(needs)
        if parse_microversion(version) > parse_microversion(self.microversion):
            text = f"{method} {path} needs microversion {version}"
            raise TooOld(text, newest=self.microversion)
        self.requests.append(Recorded(method, path, _copied(json)))
        matching = (f for f in self.failures if f.method == method and f.path.search(path))
        failure = next(matching, None)
        if failure is None:
            return self.answer(method, path, json=json, microversion=version)
        self.failures.remove(failure)
        if failure.after:
            self.answer(method, path, json=json, microversion=version)
        raise failure.error

    @property
    def calls(self) -> int:
        return len(self.requests)

    # -- for tests

    def fail_next(
        self, method: str, path: str, error: PlacementError, *, after: bool = False
    ) -> None:
        """Raise ``error`` at the next request of this method with a matching path.

        ``path`` is a regular expression that is searched for in the path and query.  With
        ``after`` the request is executed first, as if only its reply were lost.
        """
        self.failures.append(Failure(method, re.compile(path), error, after))

    @property
    def writes(self) -> list[Recorded]:
        return [request for request in self.requests if request.is_write]

    def mark(self) -> int:
        return len(self.requests)

    def since(self, mark: int) -> list[Recorded]:
        return self.requests[mark:]

    def answer(
        self, method: str, path: str, *, json: Any = None, microversion: str | None = None
    ) -> dict[str, Any]:
        """Execute a request without recording it, by default with the newest microversion.

        :raises reportclient.errors.PlacementError: Placement would refuse it.
        """
        version = parse_microversion(microversion or self.microversion)
        if version > parse_microversion(self.microversion):
            raise TooOld(f"Unacceptable version header: {microversion}")
        parts = urlsplit(path)
        query = parse_qsl(parts.query, keep_blank_values=True)
        call = Call(query, _copied(json), version)
        for allowed, pattern, handler in ROUTES:
            match = pattern.fullmatch(parts.path)
            if match and allowed == method:
                _expect_modelled(version, parts.path)
                with self._lock:
                    answer: dict[str, Any] = _copied(handler(self, call, *match.groups()))
                return answer
        raise AssertionError(f"the fake Placement does not model {method} {path}")


def _copied(value: Any) -> Any:
    """Return a deep copy of JSON values."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value


def _expect_modelled(version: tuple[int, ...], path: str) -> None:
    consumer = path.startswith("/allocations/") and version >= (1, 28)
    modelled = version >= parse_microversion(OLDEST) or path.endswith("/aggregates") or consumer
    assert modelled, f"the fake Placement does not model {path} at {version}"
