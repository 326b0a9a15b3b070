"""The part of Ironic's REST API that the driver and these tests use, in memory.

It is no Ironic: states change at once and nothing is validated.  What it answers is held
against a real one in test_ironic.py, where the command ``ironic`` is installed.
"""

from __future__ import annotations

import json
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

PAGE = 3
VERSIONS = {"id": "v1", "status": "CURRENT", "min_version": "1.1", "version": "1.82"}
TARGETS = {"manage": "manageable", "provide": "available"}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.0"  # a connection for each request: stopped is stopped
    nodes: dict[str, dict[str, Any]]
    base: str

    def log_message(self, *args: Any) -> None:
        """Quiet."""

    def do_GET(self) -> None:
        url = urlsplit(self.path)
        parts = url.path.strip("/").split("/")
        version = {**VERSIONS, "links": [{"href": f"{self.base}/v1/", "rel": "self"}]}
        if parts == [""]:
            self.answer(200, {"versions": [version], "default_version": version})
        elif parts == ["v1"]:
            self.answer(200, {"id": "v1", "version": version})
        elif parts == ["v1", "nodes"]:
            self.answer(200, self.listing({k: v[0] for k, v in parse_qs(url.query).items()}))
        elif parts[-1] in self.nodes:
            self.answer(200, self.nodes[parts[-1]])
        else:
            self.answer(404, {"error_message": {"faultstring": "not found"}})

    def listing(self, query: dict[str, str]) -> dict[str, Any]:
        found = [
            node
            for _, node in sorted(self.nodes.items())
            if all(node[key] == query[key] for key in ("conductor_group", "shard") if key in query)
        ]
        after = query.get("marker", "")
        page = [node for node in found if node["uuid"] > after]
        fields = query["fields"].split(",")
        answer: dict[str, Any] = {"nodes": [{f: node[f] for f in fields} for node in page[:PAGE]]}
        if len(page) > PAGE:
            rest = "&".join(f"{k}={v}" for k, v in query.items() if k != "marker")
            answer["next"] = f"{self.base}/v1/nodes?{rest}&marker={page[PAGE - 1]['uuid']}"
        return answer

    def do_POST(self) -> None:
        asked = self.body()
        node = {
            "uuid": str(uuid.uuid4()),
            "name": None,
            "resource_class": None,
            "instance_uuid": None,
            "maintenance": False,
            "power_state": None,
            "provision_state": "enroll",
            "traits": [],
            "conductor_group": "",
            "shard": None,
            **asked,
        }
        self.nodes[node["uuid"]] = node
        self.answer(201, node)

    def do_PUT(self) -> None:
        _, _, name, *what = self.path.strip("/").split("/")
        node, asked = self.nodes[name], self.body()
        if what == ["traits"]:
            node["traits"] = asked["traits"]
        elif what == ["maintenance"]:
            node["maintenance"] = True
        elif what == ["states", "power"]:
            node["power_state"] = asked["target"]
        else:
            node["provision_state"] = TARGETS[asked["target"]]
        self.answer(202, None)

    def do_PATCH(self) -> None:
        node = self.nodes[self.path.strip("/").split("/")[2]]
        for change in self.body():
            node[change["path"].strip("/")] = change.get("value")
        self.answer(200, node)

    def do_DELETE(self) -> None:
        _, _, name, *what = self.path.strip("/").split("/")
        if what:
            self.nodes[name]["maintenance"] = False
        else:
            del self.nodes[name]
        self.answer(204, None)

    def body(self) -> Any:
        text = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        return json.loads(text) if text else None

    def answer(self, status: int, body: Any) -> None:
        data = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        for name in ("", "Minimum-", "Maximum-"):
            version = "1.1" if name == "Minimum-" else "1.82"
            self.send_header(f"X-OpenStack-Ironic-API-{name}Version", version)
        self.end_headers()
        self.wfile.write(data)


class IronicStub:
    """Listens on a free port; ``stop`` and ``start`` again keep the nodes and the port."""

    def __init__(self, port: int = 0) -> None:
        self.nodes: dict[str, dict[str, Any]] = {}
        self.port = port
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        members: dict[str, Any] = {"nodes": self.nodes, "base": ""}
        handler = type("Bound", (Handler,), members)
        self.server = ThreadingHTTPServer(("127.0.0.1", self.port), handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        handler.base = self.url
        threading.Thread(target=self.server.serve_forever, args=(0.05,), daemon=True).start()

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
