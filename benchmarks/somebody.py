"""Somebody else at the same Placement: guests, strangers, and the check of what was reached.

None of it is measured.  Only the standard library is used.
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
    "OpenStack-API-Version": "placement 1.39",
}


class Somebody:
    """Talks to the Placement at ``url`` with a connection for each request."""

    def __init__(self, url: str) -> None:
        self._place = urlsplit(url).netloc

    def allocate(self, consumers: int) -> list[str]:
        """Give so many guests a VCPU and a GPU each; returns their UUIDs."""
        guests = [str(uuid.uuid5(uuid.UUID(ROOT), f"guest {n}")) for n in range(consumers)]
        for guest in guests:
            body = {
                "allocations": {ROOT: {"resources": {"VCPU": 1, "VGPU": 1}}},
                "project_id": "project",
                "user_id": "user",
                "consumer_generation": None,
                "consumer_type": "INSTANCE",
            }
            self.request("PUT", f"/allocations/{guest}", body)
        return guests

    def add_trait(self, provider: str, trait: str) -> None:
        """Put one more trait on a provider."""
        traits = self._of(provider, "traits")
        traits["traits"] = sorted({trait, *traits["traits"]})
        self.request("PUT", f"/resource_providers/{provider}/traits", traits)

    def total(self, provider: str, resource_class: str) -> int:
        """What Placement has as the total of a class, 0 for none."""
        inventories = self._of(provider, "inventories")["inventories"]
        return int(inventories.get(resource_class, {}).get("total", 0))

    def used(self, provider: str, resource_class: str) -> int:
        """How much of a class is allocated."""
        return int(self._of(provider, "usages")["usages"].get(resource_class, 0))

    def traits(self, provider: str) -> set[str]:
        """The traits of a provider."""
        return set(self._of(provider, "traits")["traits"])

    def members(self) -> int:
        """The number of providers in the host's tree."""
        found = self.request("GET", f"/resource_providers?in_tree={ROOT}")
        return len(found["resource_providers"])

    def request(self, method: str, path: str, body: Any = None) -> dict[str, Any]:
        """One request.  :raises RuntimeError: it was refused."""
        with closing(http.client.HTTPConnection(self._place, timeout=60)) as link:
            link.request(method, path, None if body is None else json.dumps(body), HEADERS)
            response = link.getresponse()
            text = response.read()
        if response.status >= 300:
            raise RuntimeError(f"{method} {path}: {response.status} {text.decode()}")
        return json.loads(text) if text else {}

    def _of(self, provider: str, part: str) -> dict[str, Any]:
        return self.request("GET", f"/resource_providers/{provider}/{part}")
