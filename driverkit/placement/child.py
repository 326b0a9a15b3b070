"""The process in which the embedded Placement runs (see ``driverkit.placement.server``).

    python -m driverkit.placement.child DIRECTORY PORT

DIRECTORY holds ``placement.conf``.  The port is printed on the first line of the
standard output once requests are answered; the process ends at the end of its
standard input.
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

# SQLite has one writer; with more threads some concurrent writes end in a 500.
THREADS = 1


def main(argv: list[str]) -> None:
    """Serve until the parent is gone."""
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
        """Answer, and log."""
        started = time.perf_counter()
        reply: dict[str, Any] = {}

        def keep_reply(status: str, headers: list[tuple[str, str]], *exc_info: Any) -> Any:
            reply["status"] = int(status[:3])
            reply["headers"] = {name.lower(): value for name, value in headers}
            return start_response(status, headers, *exc_info)

        body = list(self._application(environ, keep_reply))
        record = {
            "method": environ["REQUEST_METHOD"],
            "path": _path(environ),
            "status": reply["status"],
            "microversion": _microversion(environ),
            "bytes_in": int(environ.get("CONTENT_LENGTH") or 0),
            "bytes_out": sum(map(len, body)),
            "milliseconds": round((time.perf_counter() - started) * 1000, 2),
            "request_id": reply["headers"].get("x-openstack-request-id", ""),
        }
        self._log.write(json.dumps(record) + "\n")
        return body


def _path(environ: Environ) -> str:
    query = environ.get("QUERY_STRING")
    return f"{environ['PATH_INFO']}?{query}" if query else str(environ["PATH_INFO"])


def _microversion(environ: Environ) -> str:
    service, _, version = environ.get("HTTP_OPENSTACK_API_VERSION", "").partition(" ")
    return version if service == "placement" else ""


def _exit_with_parent(pipe: int) -> None:
    # A signal on the parent's death would come at the end of the *thread* that
    # started us; the pipe closes with the process only.
    while os.read(pipe, 1):
        pass
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv)
