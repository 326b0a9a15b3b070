"""Send operations: the HTTP call of each, and a count of calls."""

from collections.abc import Iterable, Mapping
from typing import Any, assert_never

from reportclient import forms
from reportclient.errors import Conflict
from reportclient.http import API
from reportclient.plan import (
    CreateProvider,
    DeleteProvider,
    EnsureClass,
    EnsureTrait,
    Operation,
    Reshape,
    SetAggregates,
    SetInventories,
    SetInventory,
    SetTraits,
    UpdateProvider,
    as_dicts,
)
from reportclient.reader import Listed, members_of
from reportclient.reshape import generations_after, reshape_payload


def send(operation: Operation, generations: Mapping[str, int], api: API) -> dict[str, Any]:
    """Send an operation and return the body of the answer; for a reshape, a listing of the tree.

    ``generations`` by provider UUID go into the request.

    :raises reportclient.errors.PlacementError: it failed, or its result is unknown.
    """
    _refuse_unread(operation, generations)
    method, path, body = http_call(operation, generations)
    moves = isinstance(operation, UpdateProvider) and operation.moved
    reply = api.request(method, path, json=body, needs="1.37" if moves else None)
    forms.checked(f"{method} {path}", _form_of_answer(operation), reply)
    if isinstance(operation, UpdateProvider):  # no generation protects its parent
        parent = reply["parent_provider_uuid"]
        if parent != operation.parent_uuid:
            text = f"provider {operation.name} ({operation.uuid}) was moved by another client"
            raise Conflict(f"{text}: it is below {parent}")
    if isinstance(operation, Reshape):
        return _listed(generations_after(operation, generations), api)
    return reply


_WRITTEN = forms.record(resource_provider_generation=forms.count)


def _form_of_answer(operation: Operation) -> forms.Check[Any]:
    match operation:
        case CreateProvider() | UpdateProvider():
            return forms.provider
        case SetTraits() | SetAggregates() | SetInventory():
            return _WRITTEN
        case _:
            return forms.empty


def _listed(uuids: Iterable[str], api: API) -> dict[str, Any]:
    """List the trees of these providers: a reshape's answer is empty, and generations moved."""
    listed: list[Listed] = []
    left = dict.fromkeys(uuids)
    while left:
        tree = members_of(left.popitem()[0], api)
        listed += tree
        for item in tree:
            left.pop(item["uuid"], None)
    return {"resource_providers": listed}


def _refuse_unread(operation: Operation, generations: Mapping[str, int]) -> None:
    """Refuse to overwrite a provider that was not read.  :raises Conflict: read it first."""
    match operation:
        case SetTraits(uuid) | SetAggregates(uuid) | SetInventory(uuid):
            written: Iterable[str] = (uuid,)
        case Reshape(inventories) | SetInventories(inventories):
            written = inventories
        case _:
            return
    unread = sorted(uuid for uuid in written if uuid not in generations)
    if unread:
        raise Conflict(f"providers {', '.join(unread)} have changed and must be read first")


def http_call(  # noqa: PLR0911  one return for each kind
    operation: Operation, generations: Mapping[str, int]
) -> tuple[str, str, dict[str, Any] | None]:
    """Return the HTTP call of an operation: method, path and body."""
    match operation:
        case EnsureTrait(name):
            return "PUT", f"/traits/{name}", None
        case EnsureClass(name):
            return "PUT", f"/resource_classes/{name}", None
        case CreateProvider(uuid, name, parent):
            body = {"uuid": uuid, "name": name, "parent_provider_uuid": parent}
            return "POST", "/resource_providers", body
        case UpdateProvider(uuid, name, parent, moved):
            body = {"name": name, **({"parent_provider_uuid": parent} if moved else {})}
            return "PUT", f"/resource_providers/{uuid}", body
        case Reshape() | SetInventories():
            return "POST", "/reshaper", reshape_payload(operation, generations)
        case DeleteProvider(uuid):
            return "DELETE", f"/resource_providers/{uuid}", None
        case SetTraits(uuid, traits):
            return _put(uuid, "traits", sorted(traits), generations)
        case SetAggregates(uuid, aggregates):
            return _put(uuid, "aggregates", sorted(aggregates), generations)
        case SetInventory(uuid, inventory):
            return _put(uuid, "inventories", as_dicts(inventory), generations)
        case _:
            assert_never(operation)


def _put(
    uuid: str, part: str, value: Any, generations: Mapping[str, int]
) -> tuple[str, str, dict[str, Any]]:
    body = {"resource_provider_generation": generations.get(uuid), part: value}
    return "PUT", f"/resource_providers/{uuid}/{part}", body


class Counting:
    """An API for one attempt, which counts its calls and records what they met.

    ``now``: when the attempt began, in seconds of a monotonic clock.
    """

    def __init__(self, api: API, now: float = 0.0) -> None:
        self._api = api
        self.now = now
        self.needs: str | None = None
        """The oldest microversion that supports the attempt; ``None``: any."""
        self.calls = 0
        self.tries = 1
        """Number of tries: more than one after conflicts with other clients."""
        self.done: list[Operation] = []
        """The acknowledged operations."""
        self.stopped: tuple[Any, ...] | None = None
        """The request at which the previous try stopped, as :func:`http_call` returns it."""
        self.met: tuple[Any, ...] | None = None
        """The error that ended the previous try; the view and the number of writes at that time."""

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        self.calls += 1
        return self._api.request(method, path, json=json, needs=needs or self.needs)
