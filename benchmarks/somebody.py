"""Requests of other clients to the same Placement: guests, foreign writes, and checks of results.

These requests are not measured.  Only the standard library is used.
"""

from __future__ import annotations

import http.client
import json
import uuid
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from benchmarks.host import ROOT

HEADERS = {
    "X-Auth-Token": "admin",
    "Accept": "application/json",
    "Content-Type": "application/json",
    "OpenStack-API-Version": "placement 1.37",
}


class Somebody:
    """A client of the Placement at ``url`` with a new connection for each request."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url).netloc

    def allocate(self, consumers: int) -> list[str]:
        """Create guests with a VCPU and a GPU each; return their UUIDs."""
        guests = [str(uuid.uuid5(uuid.UUID(ROOT), f"guest {n}")) for n in range(consumers)]
        for guest in guests:
            body = {
                "allocations": {ROOT: {"resources": {"VCPU": 1, "VGPU": 1}}},
                "project_id": "project",
                "user_id": "user",
                "consumer_generation": None,
            }
            self.request("PUT", f"/allocations/{guest}", body)
        return guests

    def add_trait(self, provider: str, trait: str) -> None:
        """Add a trait to a provider."""
        traits = self._read(provider, "traits")
        traits["traits"] = sorted({trait, *traits["traits"]})
        self.request("PUT", f"/resource_providers/{provider}/traits", traits)

    def total(self, provider: str, resource_class: str) -> int:
        """Return the total of a class, 0 if the provider has none."""
        inventories = self._read(provider, "inventories")["inventories"]
        return int(inventories.get(resource_class, {}).get("total", 0))

    def used(self, provider: str, resource_class: str) -> int:
        """Return the allocated amount of a class."""
        return int(self._read(provider, "usages")["usages"].get(resource_class, 0))

    def traits(self, provider: str) -> set[str]:
        """Return the traits of a provider."""
        return set(self._read(provider, "traits")["traits"])

    def members(self) -> int:
        """Return the number of providers in the host's tree."""
        listed = self.request("GET", f"/resource_providers?in_tree={ROOT}")
        return len(listed["resource_providers"])

    def request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """Send a request and return the answer.  :raises RuntimeError: it was refused."""
        with closing(http.client.HTTPConnection(self._place, timeout=60)) as link:
            link.request(method, path, None if body is None else json.dumps(body), HEADERS)
            response = link.getresponse()
            text = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {text.decode()}")
        return json.loads(text) if text else {}

    def _read(self, provider: str, part: str) -> dict[str, Any]:
        return self.request("GET", f"/resource_providers/{provider}/{part}")
