"""What a configuration file says about the registry, and what is wrong with it."""

from __future__ import annotations

import stat
import subprocess
import sys
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from agent.bus.signing import host_key
from agent.registry import opts
from compute_registry import config, service


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.conf"
    path.write_bytes(b"[registry]\nbinary = caf\xe9\n")
    for file, said in (
        (path, "a configuration file is not UTF-8 text"),
        (tmp_path, f"^{tmp_path}: Is a dir"),
    ):
        with pytest.raises(opts.RegistryConfigError, match=said):
            config.load_config(["--config-file", str(file)])


def load(tmp_path: Path, text: str) -> opts.RegistrySettings:
    path = tmp_path / "r.conf"
    path.write_text(text)
    return opts.settings(config.load_config(["--config-file", str(path)]))


def test_by_default_there_is_no_registry(tmp_path: Path) -> None:
    found = load(tmp_path, "")
    assert found.connection == ""
    assert (found.access, found.rest_port, found.auth_strategy) == ("direct", None, "keystone")
    assert (found.down_after, found.report_interval) == (60.0, 10.0)


@pytest.mark.parametrize(
    ("master", "hosts", "refused"),
    [
        ("secret", "host1\nhost2.example\n", ""),
        ("secret, old", "host1", ""),
        ("secret", "", ""),
        ("secret", "host1 ../host2", "--host-keys: '../host2' is not a valid host name"),
        ("", "host1", "[registry] master_key is not set"),
    ],
)
def test_a_file_with_its_key_is_written_for_each_host_or_none_at_all(
    tmp_path: Path, monkeypatch: Any, capsys: Any, master: str, hosts: str, refused: str
) -> None:
    monkeypatch.setattr(service.signal, "signal", lambda *_: None)
    monkeypatch.setattr("sys.stdin", StringIO(hosts))
    path, keys = tmp_path / "r.conf", tmp_path / "new" / "keys"
    path.write_text(f"[registry]\nmaster_key = {master}\n")
    args = ["--config-file", str(path), "--host-keys", str(keys)]
    if refused:
        with pytest.raises(SystemExit) as ended:
            service.main(args)
        assert ended.value.code == 2
        assert refused in capsys.readouterr().err
        assert not keys.exists()
        return
    service.main(args)
    files = [keys / f"{host}.conf" for host in hosts.split()]
    assert capsys.readouterr().out.split() == [str(file) for file in files]
    for host, file in zip(hosts.split(), files, strict=True):
        assert file.read_text() == f"[registry]\nhost_key = {host_key('secret', host)}\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("", ""),
        ("rabbit://u:p@h:5672/", ""),
        ("rabbit://u:p@h1:5672,u:p@h2:5672/the%20cloud", "-p 'the cloud' "),
    ],
)
def test_the_users_of_the_broker_are_printed_for_each_host_and_the_vhost(
    tmp_path: Path, monkeypatch: Any, capsys: Any, url: str, where: str
) -> None:
    monkeypatch.setattr(service.signal, "signal", lambda *_: None)
    monkeypatch.setattr("sys.stdin", StringIO("host-1.example\nhost2"))
    path = tmp_path / "r.conf"
    path.write_text(f"[DEFAULT]\ntransport_url = {url}\ncontrol_exchange = cell.1\n")
    service.main(["--config-file", str(path), "--broker-users"])
    lines = capsys.readouterr().out.splitlines()
    users = [line.split()[-1] for line in lines if " add_user " in line]
    assert users == ["registry", "operator", "agent-host-1.example", "agent-host2"]
    own = r"'^(compute|compute\.host\-1\.example)$'"
    topics = f"set_topic_permissions {where}agent-host-1.example cell.1 '^$' {own}"
    assert f"rabbitmqctl {topics}" in lines
    assert all(f" {where}" in line for line in lines if "permissions" in line)
    assert r"cell\.1" in lines[1] and "secret" not in "".join(lines)


def test_users_of_the_broker_for_an_invalid_name_are_refused(
    tmp_path: Path, monkeypatch: Any, capsys: Any
) -> None:
    monkeypatch.setattr(service.signal, "signal", lambda *_: None)
    monkeypatch.setattr("sys.stdin", StringIO("host1 ../host2"))
    with pytest.raises(SystemExit):
        service.main(["--broker-users"])
    printed = capsys.readouterr()
    assert "--broker-users: '../host2' is not a valid host name" in printed.err
    assert not printed.out


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("report_interval = 60", "report_interval"),
        ("service_down_time = 5", "service_down_time"),
        ("access = telepathy", "telepathy"),
        ("rest_port = 70000", "rest_port"),
        ("auth_strategy = none", "auth_strategy"),
        ("service_down_time = long", "service_down_time"),
    ],
)
def test_what_can_not_be_is_said_at_the_start(tmp_path: Path, line: str, said: str) -> None:
    with pytest.raises(opts.RegistryConfigError, match=said):
        load(tmp_path, f"[registry]\n{line}\n")


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(opts.RegistryConfigError, match="/no/such/file"):
        config.load_config(["--config-file", "/no/such/file"])


def start(tmp_path: Path, text: str, program: str) -> subprocess.CompletedProcess[str]:
    path = tmp_path / "r.conf"
    path.write_text(f"# a comment\n[DEFAULT]\nstate_path = {tmp_path}\n{text}\n")
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-c", f"from {program} import main; main()"]
        + ["--config-file", str(path)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


REST = "[registry]\nauth_strategy = noauth\nrest_port = 1\n"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "text", "option"),
    [
        (
            "compute_registry.service",
            "transport_url = rabbit://u:secret@h:56x72/",
            "transport_url",
        ),
        (
            "compute_registry.service",
            "transport_url = rabbit://u:secret@h:99999/",
            "transport_url",
        ),
        ("compute_registry.service", "transport_url = nonsense", "transport_url"),
        (
            "compute_registry.service",
            f"{REST}connection = mysql+pymysql://u:secret@h:33x/d",
            "connection",
        ),
        (
            "compute_registry.service",
            f"{REST}connection = mysql+pymysql://u:secret@h:99999/d",
            "connection",
        ),
        ("compute_registry.service", "[registry]\nrest_port = 87x4", "rest_port"),
        ("agent.main", "transport_url = rabbit://u:secret@h:56x72/", "transport_url"),
    ],
)
def test_a_port_that_is_none_is_one_line_with_option_and_file_and_no_retry(
    tmp_path: Path, program: str, text: str, option: str
) -> None:
    if program == "agent.main":
        text += "\ncompute_driver = fake\n[placement]\nauth_type = admin_token\ntoken = admin"
        text += "\nendpoint = http://127.0.0.1:1"
    if option == "transport_url" and program != "agent.main":
        text += "\n[registry]\nconnection = sqlite:////none"
    done = start(tmp_path, text, program)
    assert done.returncode == 2, done.stderr  # RestartPreventExitStatus of both units
    assert "Traceback" not in done.stderr
    said = done.stderr.splitlines()[-1]  # the log may have begun before
    assert f"{option} in {tmp_path / 'r.conf'}" in said
    assert "secret" not in done.stderr
    assert "invalid literal" not in done.stderr or option != "transport_url"
