"""A real Placement for tests: emptied between tests, and a plain client to it.

The client is not the one that is tested: it uses nothing but the standard library,
and turns answers into the typed errors by its own reading of them.
"""

from __future__ import annotations

import http.client
import json as jsonlib
import re
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from driverkit.placement.server import START_TIMEOUT, TOKEN, PlacementServer
from reportclient import errors
from reportclient.testing.fake_placement import Stranger
from tests.servers.ports import free_port

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
CONFLICTS = {
    "placement.concurrent_update": errors.Conflict,
    "placement.inventory.inuse": errors.InUse,
    "placement.resource_provider.inuse": errors.InUse,
    "placement.duplicate_name": errors.NameTaken,
}
STATUSES = {
    401: errors.AuthenticationFailed,
    403: errors.Forbidden,
    404: errors.NotFound,
    406: errors.TooOld,
    429: errors.Unreachable,
}
UNKNOWN = re.compile(r"No such (?:trait\(s\):|trait|resource class) ([\w, ]+?)\.?$")
NAME = re.compile(r"\b[A-Z][A-Z0-9_]+\b")


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
        if response.status >= 400:
            raise typed_error(response.status, text)
        return jsonlib.loads(text) if text else {}

    @property
    def stranger(self) -> Stranger:
        """Somebody else who writes here; his requests are in the log as well."""
        return Stranger(self.request)


def typed_error(status: int, text: bytes) -> errors.PlacementError:
    """The error of ``reportclient.errors`` that an answer stands for."""
    try:
        error = jsonlib.loads(text)["errors"][0]
    except (ValueError, LookupError, TypeError):
        error = {"detail": text.decode(errors="replace")}
    detail = " ".join(str(error.get("detail", "")).split())
    if status in STATUSES:
        return STATUSES[status](detail)
    if status >= 500:
        return errors.Unreachable(detail)
    if status == 409:
        uncoded = errors.InUse if " in use" in detail else errors.Rejected  # of traits and classes
        return CONFLICTS.get(error.get("code", ""), uncoded)(detail)
    unknown = UNKNOWN.search(detail) if status == 400 else None
    names = frozenset(NAME.findall(unknown[1])) if unknown else frozenset()
    if names:
        return errors.UnknownNames(detail, names=names)
    return errors.Rejected(detail)
