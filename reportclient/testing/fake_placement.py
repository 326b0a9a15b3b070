"""Placement in memory, at the height of our HTTP door: ``request`` answers or raises.

It records every request, can fail once, and stops a test (AssertionError) that asks
for something it does not model rather than inventing an answer.
"""

import re
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

from reportclient.errors import PlacementError, TooOld
from reportclient.microversion import parse_microversion
from reportclient.testing.fake_endpoints import ROUTES, Call, Endpoints
from reportclient.testing.stranger import Stranger

OLDEST = "1.30"


class Recorded(NamedTuple):
    """A request as it was made; ``body`` is a copy."""

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

    def meets(self, method: str, path: str) -> bool:
        return method == self.method and bool(self.path.search(path))


class FakePlacement(Endpoints):
    """``microversion`` is the newest that it speaks, and the one in which we are answered."""

    def __init__(self, microversion: str = "1.39") -> None:
        super().__init__()
        self.requests: list[Recorded] = []
        self.microversion = microversion
        self._failures: list[Failure] = []

    # -- what our code sees

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """Send a request, as ``reportclient.http.API`` does."""
        if parse_microversion(needs or OLDEST) > parse_microversion(self.microversion):
            text = f"{method} {path} needs microversion {needs or OLDEST}"
            raise TooOld(text, speaks=self.microversion)
        self.requests.append(Recorded(method, path, _copied(json)))
        failure = next((f for f in self._failures if f.meets(method, path)), None)
        if failure is None:
            return self.answer(method, path, json=json)
        self._failures.remove(failure)
        if failure.after:
            self.answer(method, path, json=json)
        raise failure.error

    @property
    def calls(self) -> int:
        return len(self.requests)

    # -- what tests see

    def fail_next(
        self, method: str, path: str, error: PlacementError, *, after: bool = False
    ) -> None:
        """Raise ``error`` at the next ``method`` whose path matches the regular expression.

        ``after``: the request is carried out, and only its reply is lost.
        """
        self._failures.append(Failure(method, re.compile(path), error, after))

    def forget_failures(self) -> None:
        """Fail no more: what :meth:`fail_next` was called for and has not come."""
        self._failures.clear()

    @property
    def unused_failures(self) -> list[Failure]:
        return list(self._failures)

    @property
    def writes(self) -> list[Recorded]:
        return [request for request in self.requests if request.is_write]

    def mark(self) -> int:
        return len(self.requests)

    def since(self, mark: int) -> list[Recorded]:
        return self.requests[mark:]

    @property
    def stranger(self) -> Stranger:
        """Somebody else, whose requests are not recorded and never fail by order."""
        return Stranger(self.answer)

    def answer(
        self, method: str, path: str, *, json: Any = None, microversion: str | None = None
    ) -> dict[str, Any]:
        """Carry a request out, unrecorded."""
        version = parse_microversion(microversion or self.microversion)
        if version > parse_microversion(self.microversion):
            raise TooOld(f"Unacceptable version header: {microversion}")
        parts = urlsplit(path)
        query = parse_qsl(parts.query, keep_blank_values=True)
        call = Call(query, _copied(json), version)
        for known, pattern, handler in ROUTES:
            match = pattern.fullmatch(parts.path)
            if match and known == method:
                _expect_modelled(version, parts.path)
                answer: dict[str, Any] = _copied(handler(self, call, *match.groups()))
                return answer
        raise AssertionError(f"the fake Placement does not model {method} {path}")


def _copied(value: Any) -> Any:
    """Return a deep copy of JSON values."""
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    return [_copied(one) for one in value] if isinstance(value, list | tuple) else value


def _expect_modelled(version: tuple[int, ...], path: str) -> None:
    modelled = version >= parse_microversion(OLDEST) or path.endswith("/aggregates")
    assert modelled, f"the fake Placement does not model {path} at {version}"
