"""401 and Keystone: a new token once, no storm, and the right name for the trouble."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from keystoneauth1 import loading
from oslo_config import cfg

from agent.placement import adapter_from_conf, register_opts
from reportclient.errors import AuthenticationFailed, Unreachable
from reportclient.http import PlacementAPI
from tests.cost.trees import VERIFY
from tests.faults.scenario import Scene
from tests.servers.fault_proxy import answered, unauthorized
from tests.servers.tiny_keystone import TinyKeystone


@pytest.fixture
def keystone() -> Iterator[TinyKeystone]:
    with TinyKeystone() as running:
        yield running


@pytest.fixture
def agent(scene: Scene, keystone: TinyKeystone):
    """Logs in at Keystone as the configuration file says."""
    conf = cfg.ConfigOpts()
    register_opts(conf)
    values = {
        "auth_type": "v3password",
        "auth_url": f"{keystone.url}/v3",
        "username": "agent",
        "password": "p",
        "user_domain_name": "d",
        "endpoint_override": scene.proxy.url,
    }
    conf.set_override("auth_type", values.pop("auth_type"), "placement")
    conf.set_override("endpoint_override", values.pop("endpoint_override"), "placement")
    conf.register_opts(loading.get_auth_plugin_conf_options("v3password"), "placement")
    for name, value in values.items():
        conf.set_override(
            name.replace("_", "-") if name not in conf.placement else name, value, "placement"
        )
    made = scene.agent()
    made.nodes.breaker.api = made.api = PlacementAPI(adapter_from_conf(conf))
    return made


def test_one_token_serves_a_whole_period(scene, agent, keystone):
    assert agent.period().ok
    assert keystone.issued == ["token-1"]


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


def test_a_refused_password_is_said_and_placement_is_not_asked(scene, agent, keystone):
    keystone.refuses = True
    report = agent.period()
    assert isinstance(report.error, AuthenticationFailed)
    assert "credentials" in str(report.error)
    assert scene.proxy.seen == []
    keystone.refuses = False
    assert agent.period(2 * VERIFY).ok
    scene.expect_the_wish_and_all_of_the_strangers()


def test_a_keystone_that_is_away_is_a_period_lost(scene, agent, keystone):
    keystone.stop()
    report = agent.period()
    assert isinstance(report.error, Unreachable)
    assert scene.proxy.seen == []
