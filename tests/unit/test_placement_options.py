"""How long the agent, and other programs with its configuration, wait for Placement."""

from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import exceptions as ksa
from keystoneauth1.session import Session
from requests.exceptions import ReadTimeout

from agent import config
from agent.placement import Endpoint, adapter_from_conf, agent_api
from reportclient.errors import Unreachable
from tests.servers.tiny_keystone import TinyKeystone

LOGIN = "auth_type = admin_token\ntoken = a\nendpoint = http://127.0.0.1:1\n"


class Hung:
    """An adapter whose server accepts requests and answers none of them."""

    auth = endpoint_override = None

    def __init__(self) -> None:
        self.session, self.waits = Session(), []

    def request(self, *_: Any, timeout: float, **__: Any) -> None:
        self.waits.append(timeout)
        try:
            raise ReadTimeout
        except ReadTimeout:
            raise ksa.ConnectTimeout("timed out")  # noqa: B904 - as keystoneauth raises it


def conf_of(tmp_path: Path, line: str) -> Any:
    path = tmp_path / "agent.conf"
    path.write_text(f"[placement]\n{LOGIN}{line}\n")
    return config.load_config(["--config-file", str(path)])


@pytest.mark.parametrize(
    ("line", "agents", "others"), [("", 300, 60), ("timeout = 0", 300, 60), ("timeout = 9", 9, 9)]
)
def test_the_agent_waits_longer_than_a_command_unless_the_option_is_set(
    tmp_path: Path, line: str, agents: float, others: float
) -> None:
    conf = conf_of(tmp_path, line)
    adapter = adapter_from_conf(conf)
    assert adapter.session.timeout == others
    agent_api(adapter, conf)
    assert adapter.session.timeout == agents


def test_the_agent_waits_ten_minutes_after_a_timeout_and_names_the_option(tmp_path: Path) -> None:
    hung = Hung()
    api = agent_api(hung, conf_of(tmp_path, ""))
    for _ in range(3):
        with pytest.raises(Unreachable, match=r"raise timeout \(300 s\)$"):
            api.request("GET", "/x")
    assert hung.waits == [300, 600, 600]


USED = "http://a (internal, R)"


@pytest.mark.parametrize(
    ("more", "line", "used", "others"),
    [
        ([], "", USED, ""),
        (
            [("internal", "S", "http://b"), ("public", "S", "http://b")],
            "",
            USED,
            "http://b (internal, S)",
        ),
        ([("internal", "S", "http://b")], "region_name = S", "http://b (internal, S)", ""),
        ([("public", "S", "http://b")], "", USED, "http://b (public, S)"),
        ([("public", "S", "http://b")], "valid_interfaces = internal", USED, ""),
        ([("internal", "R", "http://b")], "", USED, "http://b (internal, R)"),
        ([("public", "R", "http://b"), ("internal", "S", "http://a")], "", USED, ""),
        ([("internal", "S", "http://b")], "endpoint_override = http://c", "http://c", ""),
    ],
)
def test_the_endpoint_is_known_and_others_that_match_are_a_warning(
    tmp_path: Path, more: list[Any], line: str, used: str, others: str
) -> None:
    with TinyKeystone() as keystone:
        keystone.endpoints["placement"], keystone.more["placement"] = "http://a", more
        path = tmp_path / "agent.conf"
        login = f"auth_type = password\nauth_url = {keystone.url}/v3\nusername = u\npassword = p"
        path.write_text(f"[placement]\n{login}\nuser_domain_id = default\n{line}\n")
        adapter = adapter_from_conf(config.load_config(["--config-file", str(path)]))
        endpoint = Endpoint(adapter)
        endpoint.look()
        assert not keystone.issued, "no request is sent for this"
        adapter.get_token()
        endpoint.look()
    assert endpoint.used == used
    texts = [each.text for each in endpoint.conditions]
    assert texts == ([f"{used} is used, but the catalogue has {others}, too"] if others else [])


def test_without_a_keystone_the_endpoint_is_the_configured_one(tmp_path: Path) -> None:
    endpoint = Endpoint(adapter_from_conf(conf_of(tmp_path, "")))
    endpoint.look()
    assert (endpoint.used, endpoint.conditions) == ("http://127.0.0.1:1", ())
