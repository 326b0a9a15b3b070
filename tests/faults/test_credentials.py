"""401 and Keystone: a new token once, no storm, and the right name for the trouble."""

from collections.abc import Iterator

import pytest

from reportclient.errors import AuthenticationFailed, Unreachable
from tests.faults.scenario import Scene
from tests.servers.fault_proxy import answered, unauthorized
from tests.servers.tiny_keystone import TinyKeystone
from tests.unit.reportclient.test_catalog import api_by


@pytest.fixture
def keystone() -> Iterator[TinyKeystone]:
    with TinyKeystone() as running:
        yield running


@pytest.fixture
def agent(scene: Scene, keystone: TinyKeystone):
    """Logs in at Keystone with a password."""
    made = scene.agent()
    api = api_by(keystone, endpoint_override=scene.proxy.url)
    made.nodes.breaker.api = made.api = api
    return made


def test_a_401_in_the_middle_gets_a_new_token_once_and_nobody_notices(scene, agent, keystone):
    scene.proxy.harm("PUT", r"/inventories$", answered(unauthorized()))
    report = agent.period()
    assert report.ok, report.texts()
    assert keystone.issued == ["token-1", "token-2"]
    scene.expect_the_wish_and_all_of_the_strangers()


def test_a_401_that_lasts_ends_the_period_and_asks_for_one_token_more(scene, agent, keystone):
    scene.proxy.harm("GET", "", answered(unauthorized()), times=10**6)
    report = agent.period()
    assert isinstance(report.error, AuthenticationFailed)
    assert len(keystone.issued) == 2
    assert len(scene.proxy.seen) == 2
    scene.proxy.heal()
    assert agent.period().ok
    scene.expect_the_wish_and_all_of_the_strangers()


def test_a_keystone_that_is_away_is_a_period_lost(scene, agent, keystone):
    keystone.stop()
    report = agent.period()
    assert isinstance(report.error, Unreachable)
    assert scene.proxy.seen == []
