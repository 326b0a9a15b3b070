"""What an operator does to an Ironic, real or not: plain requests.

``python tests/operator_of.py PORT`` serves the stub with two nodes, to try the driver.
"""

from __future__ import annotations

import json
import sys
import threading
import time
import urllib.request
from typing import Any

VERSION = "1.82"
FREE, NOT_YET = (f"0b5a7c1e-5d0f-4a39-8c2e-7f9d3a1b000{n}" for n in (1, 2))


class Operator:
    def __init__(self, url: str) -> None:
        self.url = url

    def request(self, method: str, path: str, body: Any = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {
            "Content-Type": "application/json",
            "Accept": "application/json",
            "X-OpenStack-Ironic-API-Version": VERSION,
        }
        asked = urllib.request.Request(self.url + path, data, headers, method=method)
        with urllib.request.urlopen(asked, timeout=20) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def enroll(
        self, resource_class: str | None, traits: tuple[str, ...] = (), **fields: Any
    ) -> str:
        """A node that nobody can have yet."""
        body = {"driver": "fake-hardware", **fields}
        if resource_class is not None:
            body["resource_class"] = resource_class
        node = self.request("POST", "/v1/nodes", body)["uuid"]
        self.request("PUT", f"/v1/nodes/{node}/traits", {"traits": list(traits)})
        return node

    def provide(self, node: str) -> None:
        """Make it available, with its power off."""
        self._state(node, "provision", "manage", "provision_state", "manageable")
        self._state(node, "power", "power off", "power_state", "power off")
        self._state(node, "provision", "provide", "provision_state", "available")

    def maintain(self, node: str, *, on: bool) -> None:
        self.request("PUT" if on else "DELETE", f"/v1/nodes/{node}/maintenance", {} if on else None)

    def remove(self, node: str) -> None:
        self.request("DELETE", f"/v1/nodes/{node}")

    def _state(self, node: str, kind: str, target: str, field: str, until: str) -> None:
        self.request("PUT", f"/v1/nodes/{node}/states/{kind}", {"target": target})
        give_up = time.monotonic() + 30
        while self.request("GET", f"/v1/nodes/{node}")[field] != until:
            assert time.monotonic() < give_up, self.request("GET", f"/v1/nodes/{node}")
            time.sleep(0.1)


if __name__ == "__main__":
    from ironic_stub import IronicStub

    stub = IronicStub(int(sys.argv[1]))
    operator = Operator(stub.url)
    operator.provide(operator.enroll("gold.large", ("CUSTOM_RAID",), uuid=FREE))
    operator.enroll("gold.large", uuid=NOT_YET)
    threading.Event().wait()
