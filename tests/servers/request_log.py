"""A log of all requests to a Placement of the tests: what the counts of calls are read from."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

FILE_NAME = "requests.jsonl"
Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


def logged(application: Application, directory: Path) -> RequestLog:
    """Log the requests to an application, which lives as long as the process, in a directory."""
    return RequestLog(application, (directory / FILE_NAME).open("a", buffering=1))


class RequestLog:
    """WSGI middleware: a JSON line for each request, written before the answer is sent."""

    def __init__(self, application: Application, log: IO[str]) -> None:
        self._application = application
        self._log = log

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> list[bytes]:
        """Answer a request and log it."""
        started = time.perf_counter()
        reply: dict[str, Any] = {}

        def record_reply(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            reply["status"] = int(status[:3])
            reply["headers"] = {name.lower(): value for name, value in headers}
            return start_response(status, headers, *exc_info)

        body = list(self._application(environ, record_reply))
        query = environ.get("QUERY_STRING")
        service, _, version = environ.get("HTTP_OPENSTACK_API_VERSION", "").partition(" ")
        record = {
            "method": environ["REQUEST_METHOD"],
            "path": environ["PATH_INFO"] + (f"?{query}" if query else ""),
            "status": reply["status"],
            "microversion": version if service == "placement" else "",
            "bytes_in": int(environ.get("CONTENT_LENGTH") or 0),
            "bytes_out": sum(map(len, body)),
            "milliseconds": round((time.perf_counter() - started) * 1000, 2),
            "request_id": reply["headers"].get("x-openstack-request-id", ""),
        }
        self._log.write(json.dumps(record) + "\n")
        return body
