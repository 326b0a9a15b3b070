"""Nova's API, and what it asks of Glance and Neutron, in Nova's environment; see ``tests/servers/nova.py``.

    python -m tests.servers.nova_api_child API_PORT OTHERS_PORT

Ends with its standard input.
"""

import json
import socketserver
import sys
import threading
import wsgiref.simple_server
from collections.abc import Callable, Iterable
from typing import Any

IMAGE: dict[str, Any] = {
    "id": "155d900f-4e14-4e4c-a73d-069cbf4541e6",
    "name": "image",
    "status": "active",
    "visibility": "public",
    "container_format": "bare",
    "disk_format": "raw",
    "size": 1,
    "min_disk": 0,
    "min_ram": 0,
    "checksum": "0" * 32,
    "owner": "project",
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
    "tags": [],
}


class Threading(socketserver.ThreadingMixIn, wsgiref.simple_server.WSGIServer):
    """A thread for each request: Nova's API calls other services while it answers."""

    daemon_threads = True


class Silent(wsgiref.simple_server.WSGIRequestHandler):
    """Logs no requests: Nova does."""

    def log_message(self, format: str, *args: Any) -> None:
        """Nothing."""


def others(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Answer as a Glance with one image, and as a Neutron that has nothing."""
    _, service, *path = environ["PATH_INFO"].split("/")
    if service == "neutron":
        answer: Any = {path[-1].replace("-", "_"): []}
    elif "schemas" in path:
        answer = {"name": "image", "properties": {name: {} for name in IMAGE}}
    else:
        answer = IMAGE
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]


def serve(port: int, application: Any) -> None:
    """Serve ``application`` on a thread that ends with the process."""
    server = wsgiref.simple_server.make_server(
        "127.0.0.1", port, application, server_class=Threading, handler_class=Silent
    )
    threading.Thread(target=server.serve_forever, daemon=True).start()


def main(argv: list[str]) -> None:
    """Serve until standard input ends."""
    api_port, others_port = map(int, argv[1:3])
    serve(others_port, others)
    sys.argv = ["nova-api"]  # the application reads its arguments from it
    from nova.wsgi import osapi_compute  # type: ignore[import-not-found]

    serve(api_port, osapi_compute.application)
    sys.stdin.read()


if __name__ == "__main__":
    main(sys.argv)
