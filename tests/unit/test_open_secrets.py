"""A configuration with a password that everybody may read is told at start."""

from __future__ import annotations

from pathlib import Path

import pytest

from agent.config import open_secrets


def told(tmp_path: Path, text: str, mode: int) -> list[str]:
    path = tmp_path / "agent.conf"
    path.write_text(text)
    path.chmod(mode)
    return [each.replace(str(path), "FILE") for each in open_secrets([path, tmp_path / "none"])]


SECRETS = [
    "[placement]\npassword = secret\n",
    "[placement]\napplication_credential_secret=x\n",
    "[DEFAULT]\ntransport_url = rabbit://agent:pa55@broker:5672/\n",
    "[registry]\nconnection=mysql+pymysql://a:b@db/registry\n",
]


@pytest.mark.parametrize("text", SECRETS)
def test_a_password_that_all_may_read_is_told_with_its_line_and_what_to_do(tmp_path, text) -> None:
    assert told(tmp_path, text, 0o644) == [
        "FILE:2 has a password, and every user may read it: chmod o-r FILE"
    ]


@pytest.mark.parametrize("text", SECRETS)
def test_a_password_for_a_group_is_fine(tmp_path, text) -> None:
    assert told(tmp_path, text, 0o640) == []


@pytest.mark.parametrize(
    "text",
    [
        "[placement]\n# password = secret\nusername = agent\n",
        "[placement]\npassword =\n",
        "[DEFAULT]\ntransport_url = rabbit://broker:5672/\n",
        "[registry]\nconnection = sqlite:////var/lib/x\n",
        "[placement]\nendpoint_override = http://placement:8778/a@b\n",
    ],
)
def test_a_file_without_a_password_may_be_read_by_all(tmp_path, text) -> None:
    assert told(tmp_path, text, 0o644) == []
