"""A fake Placement in memory, with the interface of :class:`reportclient.http.API`.

It executes one request at a time, in any thread, records it and can fail on demand.  A request
that it does not model raises :class:`AssertionError`, so that no test relies on an invented answer.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any, NamedTuple, Protocol
from urllib.parse import parse_qsl, urlsplit
from uuid import uuid4

from reportclient.errors import PlacementError, TooOld
from reportclient.forms import parse_microversion
from reportclient.http import OLDEST, version_for
from reportclient.testing.fake_endpoints import ROUTES, Call, Endpoints


class Recorded(NamedTuple):
    """A request that was sent; ``body`` is a copy."""

    method: str
    path: str
    body: Any

    @property
    def is_write(self) -> bool:
        return self.method != "GET"


@dataclass
class Failure:
    method: str
    path: re.Pattern[str]
    error: PlacementError
    after: bool

    def meets(self, method: str, path: str) -> bool:
        return method == self.method and bool(self.path.search(path))


class FakePlacement(Endpoints):
    """``microversion`` is the newest that it supports; see :meth:`request` and :meth:`answer`.

    With ``ignores_case`` it compares names of providers as a Placement with a MariaDB does.
    """

    def __init__(self, microversion: str = "1.39", *, ignores_case: bool = False) -> None:
        super().__init__()
        self.store.ignores_case = ignores_case
        self.requests: list[Recorded] = []
        self.microversion = microversion
        self._failures: list[Failure] = []
        self._lock = Lock()

    # -- for the code under test

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """Send a request with the microversion that it needs, as ``reportclient.http.API`` does."""
        version = version_for(needs)
        if parse_microversion(version) > parse_microversion(self.microversion):
            text = f"{method} {path} needs microversion {version}"
            raise TooOld(text, newest=self.microversion)
        self.requests.append(Recorded(method, path, _copied(json)))
        failure = next((f for f in self._failures if f.meets(method, path)), None)
        if failure is None:
            return self.answer(method, path, json=json, microversion=version)
        self._failures.remove(failure)
        if failure.after:
            self.answer(method, path, json=json, microversion=version)
        raise failure.error

    @property
    def calls(self) -> int:
        return len(self.requests)

    # -- for tests

    def fail_next(
        self, method: str, path: str, error: PlacementError, *, after: bool = False
    ) -> None:
        """Raise ``error`` at the next request of this method with a matching path.

        ``path`` is a regular expression that is searched for in the path and query.  With
        ``after`` the request is executed first, as if only its reply were lost.
        """
        self._failures.append(Failure(method, re.compile(path), error, after))

    def forget_failures(self) -> None:
        """Cancel the failures of :meth:`fail_next` that have not occurred yet."""
        self._failures.clear()

    @property
    def unused_failures(self) -> list[Failure]:
        return list(self._failures)

    @property
    def writes(self) -> list[Recorded]:
        return [request for request in self.requests if request.is_write]

    def mark(self) -> int:
        return len(self.requests)

    def since(self, mark: int) -> list[Recorded]:
        return self.requests[mark:]

    @property
    def stranger(self) -> "Stranger":
        """Another client; its requests are not recorded and never fail on demand."""
        return Stranger(self.answer)

    def answer(
        self, method: str, path: str, *, json: Any = None, microversion: str | None = None
    ) -> dict[str, Any]:
        """Execute a request without recording it, by default with the newest microversion.

        :raises reportclient.errors.PlacementError: Placement would refuse it.
        """
        version = parse_microversion(microversion or self.microversion)
        if version > parse_microversion(self.microversion):
            raise TooOld(f"Unacceptable version header: {microversion}")
        parts = urlsplit(path)
        query = parse_qsl(parts.query, keep_blank_values=True)
        call = Call(query, _copied(json), version)
        for allowed, pattern, handler in ROUTES:
            match = pattern.fullmatch(parts.path)
            if match and allowed == method:
                _expect_modelled(version, parts.path)
                with self._lock:
                    answer: dict[str, Any] = _copied(handler(self, call, *match.groups()))
                return answer
        raise AssertionError(f"the fake Placement does not model {method} {path}")


def _copied(value: Any) -> Any:
    """Return a deep copy of JSON values."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    return [_copied(item) for item in value] if isinstance(value, list | tuple) else value


def _expect_modelled(version: tuple[int, ...], path: str) -> None:
    consumer = path.startswith("/allocations/") and version >= (1, 28)
    modelled = version >= parse_microversion(OLDEST) or path.endswith("/aggregates") or consumer
    assert modelled, f"the fake Placement does not model {path} at {version}"


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
