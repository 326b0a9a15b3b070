"""Which nodes there are: what a driver says wrongly, and UUIDs that stay."""

import errno
import json
import logging
import os
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import Mock
from uuid import UUID, uuid4, uuid5

import pytest

from agent.loop import Loop
from agent.nodes.identity import NODES as FILE_NAME
from agent.nodes.identity import IdentityError, NodeTable
from agent.nodes.nodes import Nodes
from agent.ownership.ledger import Ledger
from agent.reporting.systemd import Systemd
from agent.service import Service
from agent.state import files
from agent.state.saved_root import SavedRoot
from agent.switching.host_status import HostStatus, status_document
from agent.switching.machine import ServiceStatus
from drivers.api import ComputeDriver
from drivers.errors import DriverError, DriverNotReady
from reportclient.provider_tree import Claims
from tests.agents import Agent, Idle
from tests.full_disk import full_disk
from tests.stranger import FakePlacement
from tests.unit.test_loaded_driver import Mute

OWN = str(uuid4())


def made(name: str) -> str:
    return str(uuid5(UUID(OWN), name))


class Told(Idle):
    def get_nodenames_by_uuid(self) -> Any:
        raise SystemExit("bye")


class Opens(Idle):
    def init_host(self, host: str) -> None:
        raise SystemExit(4)

    cleanup_host = init_host


class NoPlacement:
    """Nothing is to be asked where there is no node."""

    def request(self, *args: Any, **options: Any) -> Any:
        raise AssertionError(f"{args} was asked")


def create_nodes(driver: ComputeDriver) -> Nodes:
    return Agent(NoPlacement(), named={"mine": driver}, root=OWN).nodes


def service_of(driver: ComputeDriver) -> Service:
    return Service("host1", create_nodes(driver), Systemd(), lambda: False)


def only_complaint(driver: ComputeDriver) -> str:
    (report,) = create_nodes(driver).period(0.0)
    (text,) = report.texts()
    return text


@pytest.mark.parametrize(
    ("driver", "said"),
    [
        (
            Idle("host1"),
            "driver mine: get_available_nodes() has to return a list of names, not 'host1'",
        ),
        (
            Idle(["a", "a"]),
            "driver mine: get_available_nodes() has to return a list of names: 'a' is named twice",
        ),
        (Idle([]), "driver mine: reported no node"),
        (Idle(error=SystemExit(3)), "driver mine: SystemExit: 3"),
        (Idle(error=Mute()), "driver mine: Mute"),
        (Told(["a"]), "driver mine: SystemExit: bye"),
    ],
)
def test_a_driver_that_can_not_name_its_nodes_is_named(driver: ComputeDriver, said: str) -> None:
    assert only_complaint(driver).startswith(said)


def test_a_driver_that_refuses_to_start_is_named() -> None:
    class Refuses(Opens):
        def init_host(self, host: str) -> None:
            raise DriverError("no card")

    with pytest.raises(DriverError, match="^driver mine could not start: no card$") as caught:
        service_of(Refuses(["a"])).open()
    assert not isinstance(caught.value, DriverNotReady), "a new start would not help"


def test_a_driver_that_ends_the_process_at_start_is_not_ready() -> None:
    service = service_of(Opens(["a"]))
    with pytest.raises(
        DriverNotReady, match=r"driver mine could not start: SystemExit: 4 \(.*, line \d+\)"
    ):
        service.open()
    service.close()


def test_a_driver_that_can_not_start_yet_stops_nobody_and_is_tried_again(tmp_path) -> None:
    class Later(Idle):
        calls: ClassVar[list[str]] = []
        backend = False

        def init_host(self, host: str) -> None:
            self.calls.append("init")
            if not self.backend:
                raise RuntimeError("no board")

        def cleanup_host(self, host: str) -> None:
            self.calls.append("cleanup")

        def set_host_enabled(self, enabled: bool) -> None:
            self.calls.append(f"enabled {enabled}")

        def watch(self, tell: Any) -> None:
            self.calls.append("watch")

        def degraded(self, node: str) -> dict[str, str]:
            assert self.backend, "asked though it is not open"
            return {}

        def update_provider_tree(self, provider_tree, nodename, allocations=None) -> None:
            provider_tree.add_traits(nodename, "CUSTOM_BOARD")

    class First(Idle):
        def update_provider_tree(self, provider_tree, nodename, allocations=None) -> None:
            provider_tree.add_traits(nodename, "CUSTOM_FIRST")

    placement, later = FakePlacement(), Later()
    nodes = Agent(placement, named={"first": First(["a"]), "later": later}, root=OWN).nodes
    drivers = nodes.drivers
    status = HostStatus(status_document(tmp_path), Loop(), lambda *_: [])
    status.current = ServiceStatus(disabled=False)
    service = Service("host1", nodes, Systemd(), lambda: False, status)
    heard: list[Any] = []
    service.listeners.append(heard.append)
    service.open()
    drivers[1].opening.then = partial(later.watch, None)
    assert service.period() is False
    (uuid,) = nodes.trackers
    assert placement.stranger.traits(uuid) >= {"CUSTOM_FIRST"}
    assert "driver later: could not start: RuntimeError: no board (" in str(heard[-1][0].texts())
    later.backend = True
    assert service.period() is True
    assert placement.stranger.traits(uuid) >= {"CUSTOM_FIRST", "CUSTOM_BOARD"}
    assert service.period() is True
    service.close()
    opened = ["cleanup", "init", "watch", "enabled True"]
    assert later.calls == ["init", "cleanup", "init", *opened, "cleanup"]


class Leaks(Opens):
    """Its backend is down, and ``cleanup_host`` closes what was never opened."""

    fault = "no connection to close"

    def init_host(self, host: str) -> None:
        raise DriverNotReady("the backend is down")

    def cleanup_host(self, host: str) -> None:
        raise ValueError(self.fault)


def test_a_failing_cleanup_is_logged_once_until_it_fails_otherwise(caplog) -> None:
    caplog.set_level(logging.DEBUG, "compute_agent.service")
    leaks, first = Leaks(["a"]), Idle(["a"])
    nodes = Agent(FakePlacement(), named={"first": first, "leaks": leaks}, root=OWN).nodes
    service = Service("host1", nodes, Systemd(), lambda: False)
    service.open()
    for fault in ("no connection to close", "no connection to close", "a closed one"):
        leaks.fault = fault
        service.period()
    service.close()
    warnings = [it for it in caplog.records if it.levelno > logging.DEBUG]
    lines = [it.getMessage().partition(" (")[0] for it in warnings]
    assert [line for line in lines if "cleanup_host" in line] == [
        "Driver leaks: cleanup_host failed: ValueError: no connection to close",
        "Driver leaks: cleanup_host failed: ValueError: a closed one",
    ]
    assert not [it for it in warnings if it.exc_info], "a traceback is for debug"


# -- UUIDs that stay


def uuids(tmp_path: Path, *nodes: str, own: str = OWN, **told: str) -> dict[str, str]:
    """As a new process finds them."""
    return NodeTable.in_directory(tmp_path).uuids(list(nodes), own, told)


def test_a_second_node_leaves_the_first_its_uuid(tmp_path: Path) -> None:
    assert uuids(tmp_path, "a") == {"a": OWN}
    assert uuids(tmp_path, "a", "b") == {"a": OWN, "b": made("b")}


def test_the_one_that_remains_keeps_its_uuid(tmp_path: Path) -> None:
    before = uuids(tmp_path, "a", "b")
    assert uuids(tmp_path, "b") == {"b": before["b"]} == {"b": made("b")}
    assert uuids(tmp_path, "a", "b") == before


def test_uuids_stay_within_one_process_too() -> None:
    table = NodeTable()
    assert table.uuids(["a"], OWN, {}) == {"a": OWN}
    assert table.uuids(["a", "b"], OWN, {})["a"] == OWN
    assert table.uuids(["b"], OWN, {}) == {"b": made("b")}


def test_no_two_nodes_ever_have_one_uuid(tmp_path: Path) -> None:
    for names in (["a"], ["b"], ["a", "b"], ["c"], ["a", "b", "c"]):
        found = uuids(tmp_path, *names)
        assert len(set(found.values())) == len(names)
    kept = json.loads((tmp_path / FILE_NAME).read_text())["nodes"]
    assert len(set(kept.values())) == len(kept)


def test_the_only_node_keeps_its_uuid_when_the_host_is_renamed(tmp_path: Path) -> None:
    assert uuids(tmp_path, "old") == {"old": OWN}
    assert uuids(tmp_path, "new") == {"new": OWN}


def test_an_adopted_identity_goes_to_the_node_that_had_the_hosts(tmp_path: Path) -> None:
    uuids(tmp_path, "a")
    before = uuids(tmp_path, "a", "b")
    adopted = str(uuid4())
    assert uuids(tmp_path, "a", "b", own=adopted) == {"a": adopted, "b": before["b"]}
    assert uuids(tmp_path, "a", "b", own=adopted)["a"] == adopted


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"version": 2}', '{"version": 1, "own": "x", "nodes": {}}']
)
def test_a_damaged_table_is_named_and_nothing_is_guessed(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE_NAME).write_text(text)
    with pytest.raises(IdentityError, match=str(tmp_path / FILE_NAME)):
        uuids(tmp_path, "a", "b")
    assert (tmp_path / FILE_NAME).read_text() == text
    nodes = create_nodes(Idle(["a", "b"]))
    nodes.table = NodeTable.in_directory(tmp_path)
    (report,) = nodes.period(0.0)
    assert str(tmp_path / FILE_NAME) in str(report.texts())


def test_a_table_that_stays_the_same_is_not_written_again(tmp_path: Path) -> None:
    uuids(tmp_path, "a", "b")
    path = tmp_path / FILE_NAME
    was = path.stat().st_ino
    uuids(tmp_path, "b", "a")
    assert path.stat().st_ino == was


def test_who_only_looks_writes_nothing(tmp_path: Path) -> None:
    assert NodeTable.in_directory(tmp_path, writing=False).uuids(["a"], OWN, {}) == {"a": OWN}
    assert os.listdir(tmp_path) == []


def test_a_table_that_can_not_be_written_stops_nobody(tmp_path: Path, caplog) -> None:
    (tmp_path / f".{FILE_NAME}").mkdir()
    table = NodeTable.in_directory(tmp_path)
    for _ in range(3):
        assert table.uuids(["a"], OWN, {}) == {"a": OWN}
    assert len(caplog.records) == 1


def test_uuids_that_a_full_disk_did_not_take_are_kept_once_there_is_space(tmp_path, caplog) -> None:
    table = NodeTable.in_directory(tmp_path)
    with full_disk():
        for _ in range(2):
            table.uuids(["a"], OWN, {})
    assert caplog.text.count("nodes.json can't be written (No space left on device)") == 1
    table.uuids(["a"], OWN, {})
    assert NodeTable.in_directory(tmp_path).uuids(["a", "b"], OWN, {})["a"] == OWN


def _kept_in(state: Path) -> Ledger:
    kept = SavedRoot.in_directory(state, OWN)
    kept.load()
    return kept.ledger


def test_a_ledger_that_could_not_be_read_at_the_start_is_not_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    held = Claims(traits=frozenset({"HW_CPU_X86_AVX"}))
    ledger = replace(Ledger().adding("driver:a", OWN, held), known=True)
    assert SavedRoot.in_directory(tmp_path, OWN).save_ledger(ledger)
    file = SavedRoot.in_directory(tmp_path, OWN)
    with monkeypatch.context() as unreadable:
        error = OSError(errno.EIO, "Input/output error")
        unreadable.setattr(files, "read_with_identity", Mock(side_effect=error))
        file.load()
        assert "Input/output error" in file.document.problem
        assert not file.reload()
    assert not file.save_ledger(Ledger(known=True))
    assert _kept_in(tmp_path) == ledger
    assert file.reload() and file.ledger == ledger and not file.document.problem
    assert file.save_ledger(replace(ledger, known=True))
