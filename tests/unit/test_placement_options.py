"""How long the agent, and other programs with its configuration, wait for Placement."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from keystoneauth1 import exceptions as ksa
from keystoneauth1.session import Session
from requests.exceptions import ReadTimeout

from agent import config
from agent.placement import adapter_from_conf, agent_api
from reportclient.errors import Unreachable

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


def test_the_agent_waits_ten_minutes_after_a_timeout_and_names_the_option(
    tmp_path: Path,
) -> None:
    hung = Hung()
    api = agent_api(hung, conf_of(tmp_path, ""))
    for _ in range(3):
        with pytest.raises(Unreachable, match=r"raise timeout \(300 s\)$"):
            api.request("GET", "/x")
    assert hung.waits == [300, 600, 600]
