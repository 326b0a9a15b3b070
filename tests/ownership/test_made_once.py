"""What is made of a driver's answer on its way to Placement, counted."""

from collections import Counter
from collections.abc import Callable
from functools import wraps
from typing import Any

import pytest

from reportclient.model import Inventory
from reportclient.snapshot import Snapshot
from tests.ownership.world import SOON, Host, both, child, inventory, settled_host
from tests.stranger import FakePlacement


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often a forest of providers was made, and a record read from a dict or written to one."""
    counts: Counter[str] = Counter()

    def counting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def counted(*args: Any, **kwargs: Any) -> Any:
            counts[name] += 1
            return function(*args, **kwargs)

        return counted

    monkeypatch.setattr(Snapshot, "__init__", counting("snapshots", Snapshot.__init__))
    read = counting("records read", Inventory.from_dict)
    monkeypatch.setattr(Inventory, "from_dict", staticmethod(read))
    monkeypatch.setattr(Inventory, "as_dict", counting("records written", Inventory.as_dict))
    return counts


def says(total: int) -> Callable[[Any], None]:
    return both(
        inventory(VCPU=8),
        *(child(f"device{n}", FPGA=2) for n in range(9)),
        child("last", FPGA=total),
    )


@pytest.fixture
def host() -> Host:
    return settled_host(FakePlacement(), {"one": says(1)})


def test_a_quiet_period_makes_nothing(host: Host, made: Counter[str]) -> None:
    host.period(SOON)
    assert not made


def test_a_change_makes_one_snapshot_which_is_desired_then_acknowledged(
    host: Host, made: Counter[str]
) -> None:
    assert host.says(one=says(2)).period(SOON).ok
    assert made == {"snapshots": 1, "records read": 1, "records written": 1}
    assert host.period(SOON).done == ()
    assert made["snapshots"] == 2, "what the driver is shown of it"
