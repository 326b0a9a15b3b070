"""As much of Keystone as it takes to log in and to check tokens; those that it issues are counted."""

import json
import threading
import time
from collections import Counter
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.servers.process import Server


class TinyKeystone(Server):
    """``issued`` are the tokens given out; ``refuses`` makes it say 401 to the password.

    While ``answers`` is not set, requests hang.  Checks of tokens take ``seconds`` each, one at a
    time, and are counted in ``checked``.  ``endpoints`` are the URLs of the services in the catalog, by their type;
    ``more`` are further endpoints of a type: interface, region and URL.

    ``token-ROLE`` is a token of a user with that role.
    """

    def __init__(self) -> None:
        self.issued: list[str] = []
        self.refuses = False
        self.seconds = 0.0
        self.checked = Counter[str]()
        self.at_work = threading.Lock()
        self.answers = threading.Event()
        self.answers.set()
        self.endpoints: dict[str, str] = {}
        self.more: dict[str, list[tuple[str, str, str]]] = {}
        self._server: ThreadingHTTPServer | None = None

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def token(self) -> str:
        self.issued.append(f"token-{len(self.issued) + 1}")
        return self.issued[-1]

    def start(self) -> None:
        bound = type("Bound", (_Handler,), {"k": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), bound)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        server, self._server = self._server, None
        self.answers.set()
        if server is not None:
            server.shutdown()
            server.server_close()


class _Handler(BaseHTTPRequestHandler):
    k: TinyKeystone

    def do_GET(self) -> None:
        self.k.answers.wait()
        here = f"http://{self.headers['Host']}"
        if not self.path.startswith("/v3/auth/tokens"):
            version = {"id": "v3.14", "status": "stable"}
            version["links"] = [{"rel": "self", "href": f"{here}/v3/"}]
            versions = {"versions": {"values": [version]}}
            self._say(200, {"version": version} if "/v3" in self.path else versions)
            return
        self.k.checked[self.headers["X-Subject-Token"]] += 1
        with self.k.at_work:
            time.sleep(self.k.seconds)
        if self.headers["X-Subject-Token"].startswith("token-"):
            self._say(200, {"token": self._token(self.headers["X-Subject-Token"][6:])})
        else:
            self._say(404, {"error": {"code": 404, "message": "no such token", "title": "x"}})

    def do_POST(self) -> None:
        self.k.answers.wait()
        self.rfile.read(int(self.headers["Content-Length"]))
        if self.k.refuses:
            self._say(401, {"error": {"code": 401, "message": "no", "title": "Unauthorized"}})
        else:
            self._say(201, {"token": self._token("service")}, self.k.token())

    def _token(self, role: str) -> dict[str, object]:
        domain = {"id": "default", "name": "Default"}
        urls = {"identity": f"http://{self.headers['Host']}/v3", **self.k.endpoints}
        catalog = [
            {
                "id": kind,
                "type": kind,
                "name": kind,
                "endpoints": [
                    {"id": face, "interface": face, "region": place, "region_id": place, "url": at}
                    for face, place, at in [
                        *((face, "R", url) for face in ("public", "internal", "admin")),
                        *self.k.more.get(kind, ()),
                    ]
                ],
            }
            for kind, url in urls.items()
        ]
        return {
            "methods": ["password"],
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "user": {"id": f"id-{role}", "name": role, "domain": domain},
            "project": {"id": "p", "name": "service", "domain": domain},
            "roles": [{"id": f"r-{role}", "name": role}],
            "catalog": catalog,
        }

    def _say(self, status: int, body: dict[str, object], token: str | None = None) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        if token:
            self.send_header("X-Subject-Token", token)
        self.end_headers()
        self.wfile.write(text)

    def log_message(self, *_: object) -> None:
        """Silence."""
