"""A fake Placement, and another client of a Placement beside the one under test."""

from collections.abc import Iterable, Mapping
from typing import Any, Protocol
from uuid import uuid4

from reportclient.testing import fake_placement

OWNER = {"project_id": "stranger", "user_id": "stranger"}


class Send(Protocol):
    def __call__(
        self, method: str, path: str, *, json: Any = None, microversion: str | None = None
    ) -> dict[str, Any]: ...


class Stranger:
    """Another client of the same Placement: Nova, an operator, another agent.

    It works with any function that sends a request, so that the same test can use it with the
    fake and with a real Placement.
    """

    def __init__(self, send: Send) -> None:
        self.send = send

    def provider(self, uuid: str) -> dict[str, Any]:
        return self.send("GET", f"/resource_providers/{uuid}")

    def create_provider(self, name: str, uuid: str | None = None) -> str:
        return self._create(name, uuid, None)

    def create_child(self, parent: str, name: str, uuid: str | None = None) -> str:
        return self._create(name, uuid, parent)

    def delete_provider(self, uuid: str) -> None:
        self.send("DELETE", f"/resource_providers/{uuid}")

    def rename(self, uuid: str, name: str) -> None:
        self.send("PUT", f"/resource_providers/{uuid}", json={"name": name})

    def move(self, uuid: str, parent: str | None) -> None:
        """Move a provider to another parent (``None``: make it a root); needs 1.37."""
        body = {"name": self.provider(uuid)["name"], "parent_provider_uuid": parent}
        self.send("PUT", f"/resource_providers/{uuid}", json=body)

    def add_trait(self, uuid: str, trait: str) -> None:
        if trait.startswith("CUSTOM_"):
            self.send("PUT", f"/traits/{trait}")
        self.set_traits(uuid, {trait, *self.traits(uuid)})

    def remove_trait(self, uuid: str, trait: str) -> None:
        self.set_traits(uuid, self.traits(uuid) - {trait})

    def traits(self, uuid: str) -> set[str]:
        return set(self.send("GET", f"/resource_providers/{uuid}/traits")["traits"])

    def set_traits(self, uuid: str, traits: Iterable[str]) -> None:
        body = {"traits": sorted(traits), **self._generation(uuid)}
        self.send("PUT", f"/resource_providers/{uuid}/traits", json=body)

    def set_aggregates(
        self, uuid: str, aggregates: Iterable[str], *, old_microversion: bool = False
    ) -> None:
        """Set aggregates; with ``old_microversion`` (1.18) the provider's generation stays."""
        path = f"/resource_providers/{uuid}/aggregates"
        if old_microversion:
            self.send("PUT", path, json=sorted(aggregates), microversion="1.18")
            return
        body = {"aggregates": sorted(aggregates), **self._generation(uuid)}
        self.send("PUT", path, json=body)

    def aggregates(self, uuid: str) -> set[str]:
        return set(self.send("GET", f"/resource_providers/{uuid}/aggregates")["aggregates"])

    def set_inventory(self, uuid: str, inventory: Mapping[str, Mapping[str, Any]]) -> None:
        for name in inventory:
            if name.startswith("CUSTOM_"):
                self.send("PUT", f"/resource_classes/{name}")
        body = {"inventories": inventory, **self._generation(uuid)}
        self.send("PUT", f"/resource_providers/{uuid}/inventories", json=body)

    def inventory(self, uuid: str) -> dict[str, dict[str, Any]]:
        return dict(self.send("GET", f"/resource_providers/{uuid}/inventories")["inventories"])

    def put_allocation(
        self,
        uses: Mapping[str, Mapping[str, int]],
        consumer: str | None = None,
        consumer_type: str | None = None,
    ) -> str:
        """Set a consumer's ``{provider: {class: amount}}``; return the consumer's UUID.

        Without ``consumer_type``, with microversion 1.28, which knows no types, as Nova does.
        """
        consumer = consumer or str(uuid4())
        current = self.allocation(consumer)
        body = {
            **OWNER,
            "allocations": {uuid: {"resources": dict(used)} for uuid, used in uses.items()},
            "consumer_generation": current.get("consumer_generation"),
        }
        if consumer_type is not None:
            body["consumer_type"] = consumer_type
        version = "1.28" if consumer_type is None else "1.38"
        self.send("PUT", f"/allocations/{consumer}", json=body, microversion=version)
        return consumer

    def allocation(self, consumer: str) -> dict[str, Any]:
        return self.send("GET", f"/allocations/{consumer}")

    def delete_allocation(self, consumer: str) -> None:
        self.send("DELETE", f"/allocations/{consumer}")

    def _create(self, name: str, uuid: str | None, parent: str | None) -> str:
        body = {"name": name, "uuid": uuid or str(uuid4()), "parent_provider_uuid": parent}
        return str(self.send("POST", "/resource_providers", json=body)["uuid"])

    def _generation(self, uuid: str) -> dict[str, int]:
        return {"resource_provider_generation": self.provider(uuid)["generation"]}


class FakePlacement(fake_placement.FakePlacement):
    """With another client, whose requests are not recorded and never fail on demand."""

    @property
    def stranger(self) -> Stranger:
        return Stranger(self.answer)
