"""The process in which the embedded Placement runs (see ``driverkit.placement.server``).

    python -m driverkit.placement.child DIRECTORY PORT

DIRECTORY contains ``placement.conf``.  Once the server answers, the port is printed to standard
output; the process ends when its standard input is closed.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

import waitress
from placement.wsgi import init_application

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]

# SQLite allows one writer; with more threads some concurrent writes fail with a 500.
THREADS = 1


def main(argv: list[str]) -> None:
    """Serve until the parent process ends."""
    directory, port = Path(argv[1]), int(argv[2])
    threading.Thread(target=_exit_with_parent, args=(sys.stdin.fileno(),), daemon=True).start()
    with (directory / "requests.jsonl").open("a", buffering=1) as log:
        application = RequestLog(init_application(), log)
        server = waitress.create_server(
            application, host="127.0.0.1", port=port, threads=THREADS, ident=None
        )
        print(server.effective_port, flush=True)  # noqa: T201  # the parent waits for it
        server.run()


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


def _exit_with_parent(pipe: int) -> None:
    # PR_SET_PDEATHSIG would already signal when the parent's *thread* that started this process
    # ends; the pipe is closed when the parent process ends.
    while os.read(pipe, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv)
