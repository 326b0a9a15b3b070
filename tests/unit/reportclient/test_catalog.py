"""The catalog, and with it Placement's address, is taken anew once it lacks Placement."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from keystoneauth1 import adapter, session
from keystoneauth1.identity import v3

from reportclient.errors import PlacementError, Unreachable
from reportclient.http import PlacementAPI, bounded_session
from tests.servers.tiny_keystone import TinyKeystone
from tests.unit.reportclient.test_transport import Answer, Peer, peer

PATH = "/resource_providers"


def placement(it: Peer) -> None:
    it.say(b'{"resource_providers": []}')


def somebody_else(it: Peer) -> None:
    it.say(b"<html>Not here</html>", 404)


def refusing(status: int) -> object:
    error = {"status": status, "title": "No", "detail": "no"}
    return lambda it: it.say(json.dumps({"errors": [error]}).encode(), status)


@pytest.fixture
def keystone() -> Iterator[TinyKeystone]:
    with TinyKeystone() as running:
        yield running


def api_by(keystone: TinyKeystone, **options: object) -> PlacementAPI:
    login = {"username": "u", "password": "p", "user_domain_id": "default"}
    auth = v3.Password(auth_url=f"{keystone.url}/v3", **login)
    bounded = bounded_session(session.Session(auth, timeout=30))
    return PlacementAPI(adapter.Adapter(bounded, service_type="placement", **options))


@contextmanager
def at_placements_address(keystone: TinyKeystone, answer: Answer) -> Iterator[Any]:
    """A server that the catalog has as Placement."""
    with peer(answer) as server:
        keystone.endpoints["placement"] = server.url
        yield server


def test_a_placement_new_in_the_catalog_is_found_at_the_next_request(keystone) -> None:
    api = api_by(keystone)
    for _ in range(3):
        with pytest.raises(Unreachable, match="endpoint_override, region_name"):
            api.request("GET", PATH)
    with peer(placement) as server:
        keystone.endpoints["placement"] = server.url
        assert api.request("GET", PATH) == {"resource_providers": []}
        api.request("GET", PATH)
    assert len(keystone.issued) == 4


@pytest.mark.parametrize("answer", [None, somebody_else, refusing(409)])
def test_a_placement_that_is_away_or_refuses_costs_no_token(keystone, answer) -> None:
    api = api_by(keystone)
    with at_placements_address(keystone, answer) as server:
        if answer is None:
            server.server_close()
        for _ in range(5):
            with pytest.raises(PlacementError):
                api.request("GET", PATH)
    assert keystone.issued == ["token-1"]
