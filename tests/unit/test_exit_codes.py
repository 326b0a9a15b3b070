"""What passes by itself ends a start with 1, what an operator has to correct with 2."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from stevedore.extension import ExtensionManager

from agent import config, placement
from agent.check import LASTING, PASSING, exit_code
from agent.errors import RegistryUnavailable
from agent.main import main
from agent.state.lock import InUse
from compute_registry.command import main as registry_command
from computectl.app import main as computectl
from drivers import extras
from drivers.errors import DriverLoadFailed, DriverNotFound, DriverNotReady, ReshapeFailed
from reportclient.errors import AuthenticationFailed, Forbidden, ServerFault, Unreachable
from tests.kit.installed import FOLDERS, install

EXPECTED = {
    DriverNotReady("a"): 1,
    RegistryUnavailable("a"): 1,
    InUse(Path("a")): 1,
    Unreachable("a"): 1,
    ServerFault("a"): 1,
    AuthenticationFailed("a"): 2,
    Forbidden("a"): 2,
    DriverNotFound("a"): 2,
    DriverLoadFailed("a"): 2,
    ReshapeFailed("a"): 2,
}


@pytest.mark.parametrize("error", EXPECTED, ids=lambda error: type(error).__name__)
def test_each_error_has_one_exit_code(error: Exception) -> None:
    assert isinstance(error, (*PASSING, *LASTING))
    assert exit_code(error) == EXPECTED[error]


LOGIN = "auth_type = admin_token\ntoken = a\nendpoint = http://127.0.0.1:1\n"
WRONG = {
    "valid_interfaces = intrenal": "'intrenal' is not a valid value for valid_interfaces",
    "max_version = foo": "max_version: Invalid version specified: foo",
    "min_version = foo": "min_version: Invalid version specified: foo",
    "endpoint_override = placement": "endpoint_override: 'placement' is no URL of HTTP",
    "auth_section = keystone": "auth_section: no group [keystone]",
}


@pytest.mark.parametrize("line", WRONG)
def test_a_value_that_keystoneauth_can_not_use_is_found_at_the_start(tmp_path, line: str) -> None:
    path = tmp_path / "agent.conf"
    path.write_text(f"[placement]\n{LOGIN}{line}\n")
    conf = config.load_config(["--config-file", str(path)])
    with pytest.raises(AuthenticationFailed) as caught:
        placement.adapter_from_conf(conf)
    assert str(caught.value).startswith(f"[placement] {WRONG[line]}")


@pytest.mark.parametrize(
    ("line", "code"), [("[placement]\nmax_version = foo\n", 2), ("[placement]\n", 1)]
)
def test_the_start_ends_with_the_code_and_one_line(
    tmp_path: Path, line: str, code: int, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    path = tmp_path / "agent.conf"
    path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\ncompute_driver = fake\n{line}{LOGIN}")

    def refuse(_: object) -> None:
        raise RuntimeError("can't start new thread")

    if code == 1:
        monkeypatch.setattr(threading.Thread, "start", refuse)
    with pytest.raises(SystemExit) as ended:
        main(["--config-file", str(path), "--once"])
    assert ended.value.code == code
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert ("can't start new thread" if code == 1 else "max_version") in last
    assert last.startswith("compute-agent: ")


ENDS = {
    "state_path =": "a.conf:2: state_path is empty",
    "compute_driver = a,a": "a.conf:2: compute_driver = a, a: name each driver once",
    "compute_driver = nope": "a.conf:2: compute_driver: no driver 'nope' is installed",
    "debug = maybe": "a.conf:2: a configuration file has an invalid value of option debug",
    "update_resources_interval = x": "a.conf:2: Value for option update_resources_interval is not valid",
    "log_config_append = /none": "a.conf:2: logging can't be set up (log_file, log_dir",
    "[registry]\naccess = rpc": "a.conf:3: [registry] access = rpc needs transport_url",
    "[monitoring]\nlisten = ::": "a.conf:3: [monitoring] listen is '::'",
    "[compute]\nowner_trait =": "a.conf:3: [compute] owner_trait is empty",
    "[compute]\ncpu_shared_set = x\n[libvirt]\nconnection_uri = test:///default": (
        "a.conf:3: driver 'libvirt' = "
    ),
    "[placement]\nauth_type = passwort": (
        "a.conf:3: [placement] auth_type = passwort: no such plugin; is password meant?"
    ),
    "[placement]\nregion_name = a": "a.conf: [placement] auth_type is not set",
}


@pytest.mark.parametrize("text", ENDS)
def test_what_ends_a_start_names_file_and_line(tmp_path: Path, text: str, capsys) -> None:
    path = tmp_path / "a.conf"
    path.write_text(f"[DEFAULT]\n{text}\n[libvirt]\nrbd_user = a\n")
    with pytest.raises(SystemExit) as ended:
        main(
            ["--config-file", str(path), "--state-path", str(tmp_path / "state")][
                : None if text != "state_path =" else 2
            ]
        )
    assert ended.value.code == 2
    assert ENDS[text].format(tmp_path) in capsys.readouterr().err.strip().splitlines()[-1]


@pytest.mark.parametrize("argument", ["--check", "--once"])
def test_a_value_that_a_driver_reads_later_is_found_at_the_start(
    tmp_path: Path, argument: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    """Else it would be found at each reload, and refuse it."""
    source = FOLDERS.replace('cfg.StrOpt("root", default="/nowhere")', 'cfg.IntOpt("depth")')
    monkeypatch.syspath_prepend(str(install(tmp_path / "site", "depths", source)))
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})
    with pytest.raises(SystemExit) as ended:
        main([argument, *fake(tmp_path, "[folders]\ndepth = many\n", driver="depths")])
    assert ended.value.code == 2
    text = f"compute-agent: {tmp_path}/agent.conf:9: Value for option depth is not valid: "
    assert text in capsys.readouterr().err


EXTRAS: dict[str, tuple[str, Callable[[Path], object]]] = {
    "sqlalchemy": ("registry", lambda _: registry_command()),
    "waitress": ("dev", lambda path: main(["--dev", "--once", *fake(path)])),
    "prometheus_client": (
        "metrics",
        lambda path: main([*fake(path, "[monitoring]\nlisten_port = 1\n")]),
    ),
    "libvirt": ("libvirt", lambda path: main(["--once", *fake(path, driver="libvirt")])),
    "pytest": ("kit", lambda path: computectl([*fake(path), "driver", "check", "fake"])),
}


def fake(path: Path, more: str = "", driver: str = "fake") -> list[str]:
    (path / "agent.conf").write_text(
        f"[DEFAULT]\nstate_path = {path}\ncompute_driver = {driver}\n[placement]\n{LOGIN}{more}"
    )
    return ["--config-file", str(path / "agent.conf")]


@pytest.mark.parametrize("module", EXTRAS)
def test_a_program_that_lacks_an_extra_says_how_to_install_it(
    tmp_path: Path, module: str, monkeypatch: pytest.MonkeyPatch, capsys
) -> None:
    extra, program = EXTRAS[module]
    monkeypatch.delitem(sys.modules, "compute_registry.service", raising=False)
    for name in [name for name in sys.modules if name.startswith("compute_registry.database")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit) as ended:
        program(tmp_path)
    assert ended.value.code == 2
    last = capsys.readouterr().err.strip().splitlines()[-1]
    assert f"{module} is not installed; run: {sys.executable} -m pip install " in last
    assert f"{Path(__file__).parents[2]}[{extra}]" in last


def test_from_an_index_the_name_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = SimpleNamespace(read_text=lambda _: None)
    monkeypatch.setattr(extras.metadata, "distributions", lambda name: [installed])
    assert extras.missing("kit", "sys", "none_such").endswith(" install 'compute-agent[kit]'")
