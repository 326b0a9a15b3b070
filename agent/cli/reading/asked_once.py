"""Placement asked nothing twice: for many trees that have much in common, read at one time."""

from __future__ import annotations

import threading
from concurrent.futures import Future
from typing import Any

from reportclient.http import API


class AskedOnce:
    """GETs only; an answer is kept, errors too.  ``calls`` counts what was really sent."""

    def __init__(self, api: API) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._answers: dict[str, Future[dict[str, Any]]] = {}

    @property
    def calls(self) -> int:
        """So far."""
        return len(self._answers)

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        if method != "GET":
            raise PermissionError(f"{method} {path}: only what is read can be kept")
        with self._lock:
            answer, mine = self._answers.get(path), False
            if answer is None:
                answer, mine = self._answers.setdefault(path, Future()), True
        if mine:
            self._fill(answer, path, json, needs)
        return answer.result()

    def _fill(
        self, answer: Future[dict[str, Any]], path: str, json: Any, needs: str | None
    ) -> None:
        try:
            answer.set_result(self._api.request("GET", path, json=json, needs=needs))
        except BaseException as err:  # noqa: BLE001  whoever waits for it has to know
            answer.set_exception(err)
