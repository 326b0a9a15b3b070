"""The catalog, and with it Placement's address, is taken anew where the one at hand leads nowhere."""

from __future__ import annotations

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


def fails(api: PlacementAPI, times: int) -> None:
    for _ in range(times):
        with pytest.raises(Unreachable):
            api.request("GET", PATH)


def test_a_placement_that_comes_into_the_catalog_is_found_at_the_next_request(keystone) -> None:
    api = api_by(keystone)
    for _ in range(3):
        with pytest.raises(Unreachable, match="endpoint_override, region_name"):
            api.request("GET", PATH)
    with peer(placement) as server:
        keystone.endpoints["placement"] = server.url
        assert api.request("GET", PATH) == {"resource_providers": []}
        api.request("GET", PATH)
    assert len(keystone.issued) == 4


@pytest.mark.parametrize("old", ["gone", "of somebody else"])
def test_a_placement_that_has_moved_is_found_after_two_requests(keystone, old) -> None:
    api = api_by(keystone)
    with peer(placement) as first, peer(placement) as second:
        keystone.endpoints["placement"] = first.url
        api.request("GET", PATH)
        keystone.endpoints["placement"] = second.url
        if old == "gone":
            first.server_close()
        first.answer = somebody_else
        fails(api.tagged("req-1"), times=2)
        assert api.request("GET", PATH) == {"resource_providers": []}
        assert (len(second.tokens), keystone.issued) == (1, ["token-1", "token-2"])


def test_a_placement_that_stays_away_costs_few_tokens(keystone) -> None:
    api = api_by(keystone)
    with at_placements_address(keystone, somebody_else):
        fails(api, times=100)
    assert len(keystone.issued) == 1 + 6, "before requests 3, 5, 9, 17, 33 and 65"


def test_the_token_is_kept_while_keystone_gives_no_other_one(keystone) -> None:
    api = api_by(keystone)
    with at_placements_address(keystone, somebody_else) as server:
        fails(api, times=2)
        keystone.stop()
        with pytest.raises(Unreachable, match="/v3/auth/tokens"):
            api.request("GET", PATH)
        server.answer = placement
        assert api.request("GET", PATH) == {"resource_providers": []}
        assert server.tokens == ["token-1"] * 3


@pytest.mark.parametrize("status", [400, 404, 409, 500])
def test_what_placement_answers_itself_costs_no_token(keystone, status) -> None:
    api = api_by(keystone)
    with at_placements_address(keystone, refusing(status)):
        for _ in range(5):
            with pytest.raises(PlacementError):
                api.request("GET", PATH)
    assert keystone.issued == ["token-1"]


def test_a_configured_address_needs_no_catalog(keystone) -> None:
    with peer(somebody_else) as server:
        api = api_by(keystone, endpoint_override=server.url)
        fails(api, times=5)
    assert keystone.issued == ["token-1"]
