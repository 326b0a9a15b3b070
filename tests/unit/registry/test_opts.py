"""What a configuration file says about the registry, and what is wrong with it."""

import stat
import sys
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from agent.bus.signing import host_key
from agent.config import OF_REGISTRY, ConfigError, refuse_unknown
from agent.config import load_config as agent_config
from compute_registry import config, service
from compute_registry.opts import REGISTRY, ServerSettings, server_settings
from tests.servers.process import completed


def test_a_file_that_can_not_be_read_is_named(tmp_path: Path) -> None:
    path = tmp_path / "r.conf"
    path.write_bytes(b"[registry]\nrest_bind = caf\xe9\n")
    for file, said in (
        (path, f"^{path}: the file is not UTF-8 text"),
        (tmp_path, f"^{tmp_path}: Is a dir"),
        ("/no/such/file", "/no/such/file"),
    ):
        with pytest.raises(ConfigError, match=said):
            config.load_config(["--config-file", str(file)])


def load(tmp_path: Path, text: str) -> ServerSettings:
    path = tmp_path / "r.conf"
    path.write_text(text)
    return server_settings(config.load_config(["--config-file", str(path)]))


def test_by_default_there_is_no_database_and_no_rest(tmp_path: Path) -> None:
    found = load(tmp_path, "")
    assert (found.connection, found.rest_port, found.auth_strategy) == ("", 0, "keystone")
    assert (found.down_after, found.master_key, found.unsigned_calls) == (60.0, (), False)


def test_an_agent_with_the_same_file_leaves_the_registrys_options_alone(tmp_path: Path) -> None:
    assert {option.dest for option in REGISTRY} == set(OF_REGISTRY)
    path = tmp_path / "both.conf"
    values = {option.dest: option.default for option in REGISTRY} | {"connection": "x"}
    lines = [f"{name} = {value}" for name, value in values.items()]
    bus = "transport_url = rabbit://x"
    path.write_text("\n".join(["[DEFAULT]", bus, "[registry]", "access = rpc", *lines]))
    refuse_unknown(agent_config(["--config-file", str(path)]))
    assert config.load_config(["--config-file", str(path)]).registry.connection == "x"


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
    with pytest.raises(ConfigError, match=said):
        load(tmp_path, f"[registry]\n{line}\n")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Run compute-registry with a configuration, some options and these hosts as its input."""
    monkeypatch.setattr(service.signal, "signal", lambda *_: None)
    path = tmp_path / "r.conf"

    def main(text: str, hosts: str, *options: str) -> None:
        path.write_text(text)
        monkeypatch.setattr("sys.stdin", StringIO(hosts))
        service.main(["--config-file", str(path), *options])

    return main


@pytest.mark.parametrize(
    ("master", "hosts"), [("secret", "host1\nhost2.example\n"), ("secret, old", "h"), ("s", "")]
)
def test_a_file_with_its_key_is_written_for_each_host(
    tmp_path: Path, run: Callable[..., None], capsys: Any, master: str, hosts: str
) -> None:
    keys = tmp_path / "new" / "keys"
    run(f"[registry]\nmaster_key = {master}\n", hosts, "--host-keys", str(keys))
    files = [keys / f"{host}.conf" for host in hosts.split()]
    assert capsys.readouterr().out.split() == [str(file) for file in files]
    for host, file in zip(hosts.split(), files, strict=True):
        key = host_key(master.split(",")[0], host)
        assert file.read_text() == f"[registry]\nhost_key = {key}\n"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("host", "option", "said"),
    [
        ("../host", "--host-keys={}/keys", "--host-keys: '../host' is not a valid host name"),
        ("host2", "--host-keys={}/keys", "[registry] master_key is not set"),
        ("../host", "--broker-users", "--broker-users: '../host' is not a valid host name"),
    ],
)
def test_nothing_is_written_for_an_invalid_name_or_without_a_key(
    tmp_path: Path, run: Callable[..., None], capsys: Any, host: str, option: str, said: str
) -> None:
    with pytest.raises(SystemExit) as ended:
        key = "secret" if host == "../host" else ""
        run(f"[registry]\nmaster_key = {key}\n", f"host1 {host}", option.format(tmp_path))
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "") and said in printed.err
    assert not (tmp_path / "keys").exists()


@pytest.mark.parametrize(
    ("url", "where"),
    [
        ("", ""),
        ("rabbit://u:p@h:5672/", ""),
        ("rabbit://u:p@h1:5672,u:p@h2:5672/the%20cloud", "-p 'the cloud' "),
    ],
)
def test_the_users_of_the_broker_are_printed_for_each_host_and_the_vhost(
    run: Callable[..., None], capsys: Any, url: str, where: str
) -> None:
    text = f"[DEFAULT]\ntransport_url = {url}\ncontrol_exchange = cell.1\n"
    run(text, "host-1.example\nhost2", "--broker-users")
    lines = capsys.readouterr().out.splitlines()
    users = [line.split()[-1] for line in lines if " add_user " in line]
    assert users == ["registry", "operator", "agent-host-1.example", "agent-host2"]
    own = r"'^(compute|compute\.host\-1\.example)$'"
    topics = f"set_topic_permissions {where}agent-host-1.example cell.1 '^$' {own}"
    assert f"rabbitmqctl {topics}" in lines
    assert all(f" {where}" in line for line in lines if "permissions" in line)
    assert r"cell\.1" in lines[1] and "secret" not in "".join(lines)


BUS = "[registry]\nconnection = sqlite:////none"
REST = "[registry]\nauth_strategy = noauth\nrest_port = 1\nconnection = mysql+pymysql"
AGENT = (
    "compute_driver = fake\n[placement]\nauth_type = admin_token\ntoken = admin\n"
    "endpoint = http://127.0.0.1:1"
)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("program", "text", "option"),
    [
        ("registry", f"transport_url = rabbit://u:secret@h:56x72/\n{BUS}", "transport_url"),
        ("registry", f"transport_url = rabbit://u:secret@h:99999/\n{BUS}", "transport_url"),
        ("registry", f"transport_url = nonsense\n{BUS}", "transport_url"),
        ("registry", f"{REST}://u:secret@h:33x/d", "connection"),
        ("registry", f"{REST}://u:secret@h:99999/d", "connection"),
        ("registry", "[registry]\nrest_port = 87x4", "rest_port"),
        ("agent", f"transport_url = rabbit://u:secret@h:56x72/\n{AGENT}", "transport_url"),
    ],
)
def test_a_port_that_is_none_is_one_line_with_option_and_file_and_no_retry(
    tmp_path: Path, program: str, text: str, option: str
) -> None:
    path = tmp_path / "r.conf"
    path.write_text(f"# a comment\n[DEFAULT]\nstate_path = {tmp_path}\n{text}\n")
    module = {"registry": "compute_registry.service", "agent": "agent.main"}[program]
    done = completed(
        *[sys.executable, "-W", "ignore", "-c", f"from {module} import main; main()"]
        + ["--config-file", str(path)],
        timeout=120,
    )
    assert done.returncode == 2, done.stderr  # RestartPreventExitStatus of both units
    assert "Traceback" not in done.stderr
    said = done.stderr.splitlines()[-1]  # the log may have begun before
    assert f"{path}:" in said and option in said.partition(f"{path}:")[2]
    assert "secret" not in done.stderr
    assert "invalid literal" not in done.stderr or option != "transport_url"
