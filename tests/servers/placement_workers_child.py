"""The processes of ``tests.servers.placement_workers``: as many as PLACEMENT_WORKERS says.

They share one listening socket, and end with their parent, which ends with its standard input.
"""

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import waitress
from placement.wsgi import init_application

from tests.servers.request_log import Application, logged

THREADS = 4
WAITING = 1024


class Away:
    """A proxy before it that has nobody to ask, while there is a file of that name."""

    def __init__(self, application: Application, sign: Path) -> None:
        self._application, self._sign = application, sign

    def __call__(
        self, environ: dict[str, Any], start_response: Callable[..., Any]
    ) -> Iterable[bytes]:
        if not self._sign.exists():
            return self._application(environ, start_response)
        start_response("503 Service Unavailable", [("Content-Type", "text/html")])
        return [b"<html><body>503 Service Unavailable</body></html>"]


def main(argv: list[str]) -> None:
    directory, port = Path(os.environ["OS_PLACEMENT_CONFIG_DIR"]), int(argv[1])
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind(("127.0.0.1", port))
    sock.listen(WAITING)
    alive, keep = os.pipe()
    for _ in range(int(os.environ["PLACEMENT_WORKERS"])):
        # One after the other: the first makes the tables.
        up, tell = os.pipe()
        if os.fork() == 0:
            os.close(keep)
            serve(sock, directory, alive, tell)
        os.close(tell)
        assert os.read(up, 1), "a worker did not come up"
    print(sock.getsockname()[1], flush=True)
    sys.stdin.buffer.read()


def serve(sock: socket.socket, directory: Path, alive: int, tell: int) -> None:
    threading.Thread(target=end_with, args=[alive], daemon=True).start()
    server = waitress.create_server(
        logged(Away(init_application(), directory / "away"), directory),
        sockets=[sock],
        threads=THREADS,
        ident=None,
        connection_limit=4000,
        asyncore_use_poll=True,  # select() ends the worker at the 1,024th file
    )
    os.write(tell, b"1")
    server.run()


def end_with(pipe: int) -> None:
    os.read(pipe, 1)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv)
