"""``computectl service`` on a host without a registry: its agent's files are the record."""

import fcntl
import json
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace

import pytest

from agent.errors import InputRefused, StillUp, UnknownHost
from agent.loop import Loop
from agent.registry.checks import StatusChange
from agent.state.document import Document, Unusable
from agent.switching import host_status as module
from agent.switching.host_status import HostStatus, saved_status, status_document
from agent.switching.machine import Event
from compute_registry.control import Switched
from compute_registry.observed_service import DIFFERING, ObservedService
from computectl import service as command
from computectl.app import ComputeCtl
from computectl.auditing.host import HostAudit
from computectl.reading.services import Observed, OwnService
from computectl.service import DisableService
from computectl.shared.command_session import Session
from computectl.shared.errors import CommandError
from drivers.errors import DriverError
from tests.registries import own_service, reported
from tests.reports import report_with
from tests.stranger import FakePlacement
from tests.unit.registry.fakes import record

ROOT = "6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca"
DISABLE = StatusChange("host1", disabled=True, reason="new disks")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    config = tmp_path / "agent.conf"
    config.write_text(f"[DEFAULT]\nhost = host1\nstate_path = {tmp_path}\n")
    return config


@pytest.fixture
def service(config: Path) -> OwnService:
    return own_service(config)


@pytest.fixture
def ctl(config: Path) -> Callable[..., int]:
    return lambda *words: ComputeCtl().run(["--config-file", str(config), "service", *words])


def ended(state: Path) -> None:
    """The agent's process runs no more."""
    path = state / "status.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"pid": 2**30}))


def test_a_host_on_which_no_agent_ran_has_no_service(service: OwnService, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match=r"no .*status\.json"):
        service.list_services()
    with pytest.raises(Unusable, match="No such file"):
        service.set_status(DISABLE)
    assert [path.name for path in tmp_path.iterdir()] == ["agent.conf"]


def test_a_record_has_what_the_agent_has_saved(service: OwnService, tmp_path: Path) -> None:
    (tmp_path / "compute_id").write_text(f"{ROOT}\n")
    file = reported(tmp_path, roots=(ROOT,), rpc="serving")
    file([report_with(driver_errors={"fake": DriverError("libvirtd is gone")})])
    (record,) = service.list_services()
    assert (record.host, record.uuid, record.roots) == ("host1", ROOT, (ROOT,))
    assert (record.disabled, record.disabled_at, record.version) == (False, None, 1)
    assert (record.is_up(), record.rpc_version, record.attached) == (True, "6.5", False)
    assert "libvirtd is gone" in record.degraded and record.agent_version
    with pytest.raises(UnknownHost):
        service.get_service("host2")
    ended(tmp_path)
    record = service.get_service("host1")
    assert (
        record.is_up(),
        ObservedService(record, False).silence,
        record.last_seen is not None,
    ) == (False, "ended", True)


def test_a_change_is_saved_with_the_next_version(service: OwnService, tmp_path: Path) -> None:
    reported(tmp_path)
    first = service.set_status(StatusChange("host1", disabled=True, reason=" new  disks "))
    assert (first.status, first.disabled_reason) == ("disabled", "new disks")
    assert first.disabled_at is not None
    second = service.set_status(StatusChange("host1", disabled=False))
    assert (second.version, second.status) == (first.version + 1, "enabled")
    assert (second.disabled_at, second.disabled_reason) == (None, None)


@pytest.mark.slow
def test_commands_and_agent_at_once_lose_no_change(service: OwnService, tmp_path: Path) -> None:
    reported(tmp_path)
    status = HostStatus(status_document(tmp_path), Loop(), lambda *_: (), alone=True)
    status.load_status()
    status.handle(Event.FOUND_ENABLED)
    before = service.get_service("host1").version
    command = (
        "import sys; from pathlib import Path\n"
        "from agent.registry.checks import StatusChange\n"
        "from agent.switching.host_status import change_saved_status\n"
        "for each in range(20):\n"
        "    change_saved_status(Path(sys.argv[1]), StatusChange('host1', disabled=True))"
    )
    writers = [subprocess.Popen([sys.executable, "-c", command, str(tmp_path)]) for _ in range(2)]
    switched = 0
    while any(writer.poll() is None for writer in writers):
        version = saved_status(status.document).record_version
        status.handle(Event.ENABLE)
        switched += version != status.current.record_version
    assert [writer.returncode for writer in writers] == [0, 0]
    status.follow_saved()
    assert service.get_service("host1").version == status.current.record_version
    assert status.current.record_version >= before + 40


def test_a_running_agent_can_not_be_deleted_and_an_ended_one_can(
    service: OwnService, tmp_path: Path
) -> None:
    reported(tmp_path)
    service.set_status(DISABLE)
    with pytest.raises(StillUp, match="host1 is up"):
        service.delete("host1")
    ended(tmp_path)
    service.delete("host1")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["agent.conf"]


def test_nobody_counts_it_as_down(service: OwnService, tmp_path: Path) -> None:
    reported(tmp_path)
    with pytest.raises(InputRefused, match=r"host1 has no registry"):
        service.set_forced_down("host1", forced_down=True)


@pytest.mark.parametrize("later", [False, True])
def test_a_status_that_cant_be_used_is_left_to_the_agent(
    service: OwnService, tmp_path: Path, later: bool
) -> None:
    reported(tmp_path)
    path = status_document(tmp_path).path
    if later:
        Document(path, version=2).save({})
    else:
        path.write_bytes(b"{")
    data = path.read_bytes()
    for call in (service.list_services, lambda: service.set_status(DISABLE)):
        with pytest.raises(Unusable, match="a later compute-agent" if later else "damaged"):
            call()
    assert path.read_bytes() == data


def test_a_change_waits_for_another_and_not_for_ever(
    service: OwnService, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported(tmp_path)
    service.set_status(DISABLE)
    monkeypatch.setattr(module, "LOCKED_WITHIN", 0.0)
    with status_document(tmp_path).path.open() as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(Unusable, match=r"service\.json.*is locked by another process"):
            service.set_status(StatusChange("host1", disabled=False))
    assert not service.set_status(StatusChange("host1", disabled=False)).disabled


def test_the_command_says_what_was_done_and_what_the_agent_does(
    ctl: Callable[..., int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(tmp_path, roots=(ROOT,))
    ctl("disable", "host1", "--reason", "new disks")
    shown = capsys.readouterr().out
    assert "host1 is disabled in its service record" in shown
    assert "its agent applies the record within a second" in shown
    assert "host1  disabled (new disks), up" in shown
    ended(tmp_path)
    ctl("enable", "host1")
    shown = capsys.readouterr().out
    assert "its agent was not called: host1 is down\nits agent applies the record when" in shown


class Following:
    """Services of one host whose agent writes the trait before the third look, or never."""

    def __init__(self, *, alive: bool = True) -> None:
        self.alive, self.looks, self.caller = alive, 0, None
        self.record = record(roots=(ROOT,), disabled=True)
        self.control = SimpleNamespace(switch=lambda *_, **__: Switched(self.record, "not called"))

    def observed(self, records: object, done: Sequence[str]) -> Observed:
        self.looks += 1
        has_it = self.alive and self.looks > 2
        return Observed([ObservedService(self.record, self.alive, with_trait=int(has_it))])


def test_what_the_agent_does_within_a_second_is_waited_for(monkeypatch) -> None:
    monkeypatch.setattr(command, "APPLIED_WITHIN", 0.2)
    options = SimpleNamespace(host="host1", reason=None)
    for alive, looks in ((True, 3), (False, 1)):
        services = Following(alive=alive)
        found = DisableService.do(SimpleNamespace(), services, options)  # type: ignore[arg-type]
        assert (services.looks, found.services[0].has(DIFFERING)) == (looks, not alive)


def test_without_a_registry_a_host_is_retired_without_its_name(
    config: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    reported(tmp_path)
    ended(tmp_path)
    assert ComputeCtl().run(["--config-file", str(config), "retire", "host1"]) == 2
    assert "computectl retire without HOST" in capsys.readouterr().err


# -- a host whose root is another service's


@pytest.fixture
def attached(config: Path, tmp_path: Path) -> None:
    config.write_text(f"{config.read_text()}[compute]\nroot_provider = attach\n")
    reported(tmp_path, attached=True)


@pytest.mark.parametrize("verb", ["disable", "enable"])
@pytest.mark.usefixtures("attached")
def test_switching_it_is_refused_with_the_command_that_does(
    ctl: Callable[..., int], verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ctl(verb, "host1") == 2
    said = capsys.readouterr().err
    assert f"openstack compute service set --{verb} host1 nova-compute" in said
    assert "nothing was changed" in said


@pytest.mark.usefixtures("attached")
def test_it_is_shown_as_attached(
    ctl: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    ctl("list")
    (line,) = [one for one in capsys.readouterr().out.splitlines() if "host1" in one]
    assert "attached" in line and "DIFFERS" not in line
    ctl("list", "-f", "json")
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["attached"], row["placement"]) == (True, "Nova's")


@pytest.mark.usefixtures("attached")
def test_an_audit_finds_a_dead_agent_in_attach_mode_too(config: Path, tmp_path: Path) -> None:
    def faults() -> list[str]:
        session = Session.from_config_files([str(config)], ())
        return [each.text for each in HostAudit(session, FakePlacement()).run().faults]

    assert faults() == []
    ended(tmp_path)
    assert faults() == ["its agent does not run (attached: Nova's)"]


def test_an_invalid_host_name_is_refused_before_the_registry_is_called(
    config: Path, ctl: Callable[..., int], capsys: pytest.CaptureFixture[str]
) -> None:
    nowhere = "transport_url = rabbit://nobody:x@127.0.0.1:1/\n[registry]\naccess = rpc\n"
    config.write_text(config.read_text() + nowhere)
    assert ctl("disable", "h" * 256) == 2
    assert "not a valid name" in capsys.readouterr().err
