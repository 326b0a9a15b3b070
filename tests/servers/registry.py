"""compute-registry as a process of its own, and an agent's side of the RPC in this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Self

from agent.bus.messaging import Target
from agent.bus.server import RpcServer
from tests.servers.process import Server, end, wait_for

START = "from compute_registry.service import main; main()"


class RegistryProcess(Server):
    """``more`` are lines of the group [registry], and of groups after it."""

    def __init__(
        self,
        directory: Path,
        *,
        transport_url: str = "",
        more: str = "",
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.directory = directory
        self._environment = {**os.environ, **(environment or {})}
        self.config = directory / "registry.conf"
        unsigned = "" if "master_key" in more else "unsigned_calls = true\n"
        self.config.write_text(
            f"[DEFAULT]\nstate_path = {directory}\ntransport_url = {transport_url}\n"
            f"[registry]\n{unsigned}{more}\n"
        )
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log(self) -> str:
        return (self.directory / "log").read_text(errors="replace")

    def start(self, says: str = "Serving the service records", timeout: float = 120.0) -> None:
        """Start it and wait until its log says that."""
        with (self.directory / "log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-c", START, "--config-file", str(self.config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
            )
        self.wait_for(lambda: says in self.log, timeout)

    def wait_for(self, done: Callable[[], bool], timeout: float = 60.0) -> None:
        assert self._process is not None
        wait_for(done, self._process, lambda: self.log, timeout)

    @property
    def pid(self) -> int:
        assert self._process is not None, "it does not run"
        return self._process.pid

    def kill9(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.wait(60)

    def stop(self, timeout: float = 120.0) -> int | None:
        """SIGTERM; its exit code, ``None`` if it was not running or had to be killed."""
        process, self._process = self._process, None
        return end(process, seconds=timeout)


class RecordingAgent:
    """An agent's RPC endpoint that notes what it is asked."""

    target = Target(version="6.0")

    def __init__(self) -> None:
        self.asked: list[bool] = []

    def set_host_enabled(self, _context: dict[str, object], enabled: bool) -> str:
        self.asked.append(enabled)
        return "enabled" if enabled else "disabled"


class RecordingAgent5(RecordingAgent):
    target = Target(version="5.13")


def recording_agent(transport: object, host: str) -> tuple[RecordingAgent, RpcServer]:
    agent = RecordingAgent5()
    target = Target(exchange="nova", topic="compute", server=host)
    server = RpcServer(transport, target, [agent])
    server.start()
    assert server.serving.wait(60)
    return agent, server


def fetch(
    url: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    """Status, headers in lower case, body."""
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, body, named, method=method)
    try:
        with urllib.request.urlopen(request, timeout=180) as answer:
            return answer.status, {k.lower(): v for k, v in answer.headers.items()}, answer.read()
    except urllib.error.HTTPError as err:
        return err.code, {k.lower(): v for k, v in err.headers.items()}, err.read()


class CheckingKeystone:
    """As much of Keystone as checking a token takes: ``token-ROLE`` is a user with that role."""

    def __enter__(self) -> Self:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _Keystone)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Keystone(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        here = f"http://{self.headers['Host']}"
        if not self.path.startswith("/v3/auth/tokens"):
            version = {"id": "v3.14", "status": "stable"}
            version["links"] = [{"rel": "self", "href": f"{here}/v3/"}]
            versions = {"versions": {"values": [version]}}
            self._say(200, {"version": version} if "/v3" in self.path else versions)
        elif self.headers["X-Subject-Token"].startswith("token-"):
            self._say(200, {"token": self._token(self.headers["X-Subject-Token"][6:])})
        else:
            self._say(404, {"error": {"code": 404, "message": "no such token", "title": "x"}})

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self._say(201, {"token": self._token("service")}, "token-service")

    def _token(self, role: str) -> dict[str, object]:
        domain = {"id": "default", "name": "Default"}
        url = f"http://{self.headers['Host']}/v3"
        faces = [
            {"id": each, "interface": each, "region": "R", "region_id": "R", "url": url}
            for each in ("public", "internal", "admin")
        ]
        return {
            "methods": ["password"],
            "expires_at": "2099-01-01T00:00:00.000000Z",
            "issued_at": "2020-01-01T00:00:00.000000Z",
            "user": {"id": f"id-{role}", "name": role, "domain": domain},
            "project": {"id": "p", "name": "service", "domain": domain},
            "roles": [{"id": f"r-{role}", "name": role}],
            "catalog": [{"id": "k", "type": "identity", "name": "k", "endpoints": faces}],
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
        pass
