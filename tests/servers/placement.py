"""A real Placement for tests: emptied between tests, and a plain client to it.

The client is not the one that is tested: it uses nothing but the standard library,
and turns answers into the typed errors by its own reading of them.
"""

import http.client
import json as jsonlib
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from driverkit.placement.server import START_TIMEOUT, TOKEN, PlacementServer
from reportclient.replies import answer
from tests.servers.ports import free_port
from tests.servers.request_log import FILE_NAME
from tests.stranger import Stranger

# Children before parents, by the foreign keys.
TABLES = (
    "allocations",
    "consumers",
    "inventories",
    "resource_provider_traits",
    "resource_provider_aggregates",
    "placement_aggregates",
    "projects",
    "users",
)


@dataclass(frozen=True, slots=True)
class Request:
    """One request that the server has answered, from its request log."""

    method: str
    path: str
    """With the query string, as it was sent."""
    status: int
    microversion: str
    """As the client asked for it, such as ``1.36``; empty if it did not."""
    bytes_in: int
    bytes_out: int
    milliseconds: float
    request_id: str

    @property
    def is_write(self) -> bool:
        """Whether it could have changed anything."""
        return self.method not in ("GET", "HEAD", "OPTIONS")

    def __str__(self) -> str:
        return f"{self.method} {self.path} {self.status}"


class RealPlacement(PlacementServer):
    """``PlacementServer`` with what only tests do to it."""

    child = "tests.servers.placement_child"

    def __init__(
        self,
        directory: Path,
        port: int = 0,
        *,
        reshaper_for_admin: bool = True,
        max_microversion: str | None = None,
    ) -> None:
        """``reshaper_for_admin``: else with Placement's own policy; ``max_microversion`` makes it
        an older Placement.
        """
        super().__init__(directory, port)
        self.max_microversion = max_microversion
        self.arguments = [max_microversion] if max_microversion else []
        self.policy = self.policy if reshaper_for_admin else "{}\n"

    @property
    def log_of_requests(self) -> Path:
        """The log with a line for each answered request, from its child's ``RequestLog``."""
        return self.directory / FILE_NAME

    def requests(self) -> list[Request]:
        """All requests that were answered so far, first to last, over all starts."""
        return self.since(0)

    def mark(self) -> int:
        """The present end of the request log, for :meth:`since`."""
        try:
            return self.log_of_requests.stat().st_size
        except FileNotFoundError:
            return 0

    def since(self, mark: int) -> list[Request]:
        """The requests that were answered after ``mark`` was taken.

        A request is in the log before its answer is sent.
        """
        try:
            with self.log_of_requests.open("rb") as log:
                log.seek(mark)
                lines = log.read().splitlines()
        except FileNotFoundError:
            return []
        return [Request(**jsonlib.loads(line)) for line in lines]

    def start(self, timeout: float = 3 * START_TIMEOUT) -> None:
        """Start it, on a port that is its own until the end of the tests."""
        self.port = self.port or free_port()
        super().start(timeout)

    def empty(self) -> None:
        """Forget all that clients have written, custom names too; milliseconds."""
        path = self.directory / "placement.sqlite"
        with closing(sqlite3.connect(path, timeout=60)) as database, database:
            for table in TABLES:
                database.execute(f"DELETE FROM {table}")
            database.execute(
                "UPDATE resource_providers SET parent_provider_id = NULL, root_provider_id = NULL"
            )
            database.execute("DELETE FROM resource_providers")
            for table in ("traits", "resource_classes"):
                database.execute(f"DELETE FROM {table} WHERE name LIKE 'CUSTOM!_%' ESCAPE '!'")

    def request(
        self,
        method: str,
        path: str,
        *,
        json: Any = None,
        microversion: str | None = None,
        roles: str | None = "admin,service",
    ) -> dict[str, Any]:
        """One request: its body, or a typed error.  ``roles`` as Keystone would give."""
        headers = {"X-Auth-Token": TOKEN, "Accept": "application/json"}
        version = microversion or self.max_microversion or "1.39"
        headers["OpenStack-API-Version"] = f"placement {version}"
        if roles is not None:
            headers["X-Roles"] = roles
        body = None if json is None else jsonlib.dumps(json)
        if body is not None:
            headers["Content-Type"] = "application/json"
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as link:
            link.request(method, path, body, headers)
            response = link.getresponse()
            text = response.read()
        if response.status < 400:
            return jsonlib.loads(text) if text else {}
        url = f"http://127.0.0.1:{self.port}{path}"
        refused = SimpleNamespace(
            status_code=response.status, headers=response.headers, content=text, url=url
        )
        return answer(method, path, refused, version)

    def providers(self, query: str = "") -> list[dict[str, Any]]:
        """The providers of a listing, such as that of ``?in_tree=UUID``."""
        listed: list[dict[str, Any]] = self.request("GET", f"/resource_providers{query}")[
            "resource_providers"
        ]
        return listed

    def uuids(self, query: str = "") -> dict[str, str]:
        """The UUIDs of the providers of a listing, by name."""
        return {each["name"]: each["uuid"] for each in self.providers(query)}

    @property
    def stranger(self) -> Stranger:
        """Somebody else who writes here; his requests are in the log as well."""
        return Stranger(self.request)
