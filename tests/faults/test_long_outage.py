"""An outage of any length costs no more memory than a short one: errors are kept without frames."""

import gc
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

import pytest

from agent.reporting.systemd import Systemd
from agent.service import Service
from drivers.errors import DriverError, DriverNotReady, ReshapeNeeded
from reportclient.client import Client
from reportclient.errors import Conflict, PlacementError, ServerFault, Unreachable
from tests.agents import NODE, ROOT, Agent, Body, Small, inventory
from tests.stranger import FakePlacement

REPOSITORY = str(Path(__file__).resolve().parents[2])


def kept_frames() -> int:
    """Return the number of tracebacks in our code; threads of earlier tests have others."""
    gc.collect()
    kept = (each for each in gc.get_objects() if isinstance(each, TracebackType))
    files = (each.tb_frame.f_code.co_filename for each in kept)
    return sum(file.startswith(REPOSITORY) and "site-packages" not in file for file in files)


class Away:
    """A Placement that answers each request with an error, raised as libraries raise theirs."""

    def __init__(self, kind: type[PlacementError]) -> None:
        self.kind = kind
        self.there: FakePlacement | None = FakePlacement()

    def request(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        if self.there is not None:
            return self.there.request(method, path, **more)
        try:
            raise OSError("connection refused")
        except OSError as err:
            raise self.kind(f"no answer to {method} {path}") from err


def reshape_fails(tree: Any, nodename: str, allocations: Any = None) -> None:
    inventory()(tree, nodename)
    if allocations is None:
        raise ReshapeNeeded
    raise DriverError("no room")


def not_ready(tree: Any, nodename: str, allocations: Any = None) -> None:
    try:
        raise OSError("the backend is away")
    except OSError as err:
        raise DriverNotReady(str(err)) from err


def new_total(periods: list[int]) -> Body:
    """A write is pending in each period."""

    def body(tree: Any, nodename: str, allocations: Any = None) -> None:
        periods.append(1)
        inventory(8 + len(periods))(tree, nodename)

    return body


def lasts(period: Callable[[], object]) -> bool:
    """Whether more tracebacks are kept after more periods."""
    for _ in range(12):
        period()
    few = kept_frames()
    for _ in range(40):
        period()
    return kept_frames() > few


@pytest.mark.parametrize("kind", [Unreachable, ServerFault, Conflict])
@pytest.mark.parametrize("nodes", [1, 12])
def test_a_placement_that_is_away(kind: type[PlacementError], nodes: int, tmp_path: Path) -> None:
    placement = Away(kind)
    names = [NODE, *(f"node{number}" for number in range(1, nodes))]
    agent = Agent(placement, Small(new_total([]), names), state=tmp_path)
    service = Service(NODE, agent.nodes, Systemd(), lambda: False)
    service.period()
    placement.there = None

    def period() -> None:
        agent.now += 60.0
        service.clock = lambda: agent.now
        assert not service.period()

    assert not lasts(period)


@pytest.mark.parametrize("body", [not_ready, reshape_fails])
def test_a_driver_that_fails(body: Body) -> None:
    agent = Agent(FakePlacement(), Small(body))
    service, before = Service(NODE, agent.nodes, Systemd(), lambda: False), kept_frames()
    assert not service.period()
    assert kept_frames() == before
    assert not lasts(lambda: service.period())


def test_a_driver_that_can_not_be_opened() -> None:
    class Closed(Small):
        def init_host(self, host: str) -> None:
            raise OSError("no such device")

    agent = Agent(FakePlacement(), Small(inventory()), Closed(inventory()))
    service = Service(NODE, agent.nodes, Systemd(), lambda: False)
    service.open()
    assert not lasts(lambda: service.period())


def test_the_library() -> None:
    placement = Away(Unreachable)
    client = Client(placement)
    tree = client.tree(ROOT, name=NODE)
    tree.update_inventory(NODE, {"VCPU": {"total": 8}})
    placement.there = None

    def update() -> None:
        with pytest.raises(Unreachable):
            client.update(tree)

    assert not lasts(update)
