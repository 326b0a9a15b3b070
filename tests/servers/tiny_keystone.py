"""As much of Keystone as it takes to log in: tokens on request, counted."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any


class TinyKeystone:
    """``issued`` are the tokens given out; ``refuses`` makes it say 401 to the password."""

    def __init__(self) -> None:
        self.issued: list[str] = []
        self.refuses = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v3"

    def token(self) -> str:
        self.issued.append(f"token-{len(self.issued) + 1}")
        return self.issued[-1]

    def __enter__(self) -> TinyKeystone:
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), type("Bound", (_Handler,), {"k": self}))
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.server.shutdown()
        self.server.server_close()


class _Handler(BaseHTTPRequestHandler):
    k: TinyKeystone

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.k.refuses:
            self._say(401, {"error": {"code": 401, "message": "no", "title": "Unauthorized"}})
            return
        token = {
            "methods": ["password"],
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "user": {"id": "u", "name": "agent", "domain": {"id": "d", "name": "d"}},
        }
        self._say(201, {"token": token}, **{"X-Subject-Token": self.k.token()})

    def _say(self, status: int, body: Any, **headers: str) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in {**headers, "Content-Length": str(len(data))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Silence."""
