"""A configuration with a password that everybody may read is told at start."""

import re
from pathlib import Path

import pytest
from oslo_config import cfg

from agent import config
from agent.placement import adapter_from_conf


def told(tmp_path: Path, text: str, mode: int) -> list[str]:
    """As the agent says it, once a driver and the ``auth_type`` have registered their options."""
    path = tmp_path / "agent.conf"
    path.write_text(text)
    path.chmod(mode)
    conf = config.load_config(["--config-file", str(path)])
    conf.register_opts([cfg.StrOpt("pin", secret=True), cfg.StrOpt("password_file")], "a_driver")
    if "auth_type" in text:
        adapter_from_conf(conf)
    return [each.replace(str(path), "FILE") for each in config.open_secrets(conf)]


TOKEN = "auth_type = admin_token\nendpoint = http://a\n"
SECRETS = [
    "[placement]\npassword = secret\n",
    "[placement]\napplication_credential_secret=x\n",
    "[DEFAULT]\ntransport_url = rabbit://agent:pa55@broker:5672/\n",
    "[DEFAULT]\ntransport_url = rabbit://one:5672,agent:pa55@two:5672/\n",
    "[DEFAULT]\ntransport-url = rabbit://agent:pa55@broker:5672/\n",
    "[registry]\nconnection=mysql+pymysql://a:b@db/registry\n",
    "[registry]\nconnection=mysql+pymysql://db/registry?user=a&password=b\n",
    "[registry]\nhost_key = 4711\n",
    "[registry]\nhost-key = 4711\n",
    "[registry]\nmaster_key = new, old\n",
    f"[placement]\ntoken = secret\n{TOKEN}",
    "[a_driver]\npin = 4711\n",
    "[another_service]\nadmin_password = secret\n",
    "[another_service]\nurl = http://a:b@c/\n",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_password_that_all_may_read_is_told_with_what_to_do(tmp_path, text) -> None:
    group, option = re.match(r"\[(\w+)\]\n([\w-]+)", text).groups()
    assert told(tmp_path, text, 0o644) == [
        f"FILE has a password, [{group}] {option}, and every user may read it: chmod o-r FILE"
    ]
    assert told(tmp_path, text, 0o640) == []


@pytest.mark.parametrize(
    "text",
    [
        "[placement]\n# password = secret\nusername = agent\n",
        "[placement]\npassword =\n",
        "[DEFAULT]\ntransport_url = rabbit://broker:5672/\n",
        "[DEFAULT]\ntransport_url = rabbit://one:5672,agent@two:5672/\n",
        "[registry]\nconnection = sqlite:////var/lib/x\n",
        "[registry]\nconnection = mysql+pymysql://db/registry?ssl_ca=a\n",
        "[placement]\nendpoint_override = http://placement:8778/a@b\n",
        "[a_driver]\npassword_file = /etc/secret\n",
    ],
)
def test_a_file_without_a_password_may_be_read_by_all(tmp_path, text) -> None:
    assert told(tmp_path, text, 0o644) == []


def test_of_several_files_each_is_told(tmp_path: Path) -> None:
    files = [tmp_path / name for name in ("a.conf", "b.conf")]
    for path in files:
        path.write_text("[registry]\nhost_key = 4711\n")
        path.chmod(0o644)
    conf = config.load_config(["--config-dir", str(tmp_path)])
    assert [each.partition(" ")[0] for each in config.open_secrets(conf)] == list(map(str, files))
