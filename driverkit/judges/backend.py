"""Judges of a node, a device or a whole backend that is gone.

The author's fixtures simulate a lost device and a lost backend.
"""

import functools
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from typing import Any

from driverkit.broken import (
    Broken,
    DriverRaised,
    Inapplicable,
    NotJudged,
    broken_by_errors,
    missing,
)
from driverkit.judges.foreign import add_foreign
from driverkit.judges.periods import again, expect_same
from driverkit.stage import Root, Stage
from drivers.api import ComputeDriver, Device, DeviceDriver
from drivers.errors import DriverNotReady, ReshapeFailed, ReshapeNeeded
from drivers.loaded import LoadedDriver
from reportclient.snapshot import Snapshot

LoseBackend = Callable[[], Callable[[], Any] | None]
"""A callable that breaks the backend; it may return a callable that repairs it."""

Listing = Iterable[Device] | Mapping[str, Iterable[Device]]
"""Return type of ``DeviceDriver.devices``."""

LOOK_EVERY = 0.1
NOWHERE = "driver-kit-nowhere"
DOCUMENTED = (DriverNotReady, ReshapeNeeded, ReshapeFailed)


def documented_errors(stage: Stage) -> None:
    """Judge the exception for a node that the backend does not have."""
    loaded = stage.open()
    root = stage.root(NOWHERE)
    where = f"the node {NOWHERE} is in the tree but not in the backend, as when a node vanishes"
    with broken_by_errors(f"{where} between two calls:\n", *DOCUMENTED):
        root.update_provider_tree(loaded, root.fresh())


def lost(stage: Stage, lose: LoseBackend) -> None:
    """Judge a driver whose backend is lost after one report."""
    loaded, roots = stage.reported()
    with ExitStack() as repairing:
        if (repair := lose()) is not None:
            repairing.callback(repair)
        _expect_not_ready_or(stage, loaded)
        for root in roots:
            _expect_untouched(root, loaded)


def starts_without(stage: Stage, lose: LoseBackend) -> None:
    """Judge a driver that is created while its backend is down, and goes on once it is up."""
    with ExitStack() as repairing:
        if (repair := lose()) is not None:
            repairing.callback(repair)
        with broken_by_errors("with the backend down "):
            loaded = stage.open()
        _expect_not_ready_or(stage, loaded)
        if repair is not None:
            repairing.close()
            _expect_well_again(stage, loaded)


NOT_READY = "with the backend lost, the exception is not DriverNotReady:\n"


def _expect_not_ready_or(stage: Stage, loaded: LoadedDriver) -> None:
    """Expect the nodes that were known before, or DriverNotReady."""
    with broken_by_errors(NOT_READY, DriverNotReady):
        stage.nodes(loaded)


def _expect_untouched(root: Root, loaded: LoadedDriver) -> None:
    tree, returned = root.fresh(), False
    with broken_by_errors(NOT_READY, DriverNotReady):
        root.update_provider_tree(loaded, tree)
        returned = True
    how = "and DriverNotReady was not raised" if returned else "then DriverNotReady was raised"
    text = f"with the backend lost the tree was edited, {how}"
    expect_same(root, root.view.snapshot, tree.freeze(), text)
    if returned and not loaded.degraded(root.node):
        raise Broken(
            f"node {root.node}: with the backend lost the driver returned as in a good period, "
            "without DriverNotReady and without an entry in degraded()"
        )


def _expect_well_again(stage: Stage, loaded: LoadedDriver) -> None:
    deadline = time.monotonic() + stage.back_within
    while True:
        try:
            for root in stage.roots(loaded):
                root.desired(loaded)
        except DriverRaised as raised:
            if time.monotonic() > deadline:
                raise Broken(
                    f"{stage.back_within:g} s after the backend was repaired, {raised.at_length()}"
                ) from None
            time.sleep(LOOK_EVERY)
        else:
            return


def lost_device(stage: Stage, lose: Callable[[], Any] | None) -> None:
    """Judge whether a lost device is removed, also with a foreign child below it.

    It is lost once while the driver runs, and once before a new driver starts.  Without ``lose``
    a device is left out of what a DeviceDriver lists.
    """
    running = stage.open()
    if lose is None and not isinstance(running.driver, DeviceDriver):
        raise Inapplicable(missing("lose_device"))
    roots = stage.roots(running)
    before = [_reported(root, running, lose) for root in roots]
    for root in roots:
        root.edited_by_another(functools.partial(add_foreign, root.uuid))
    (lose or functools.partial(_leave_one_out, running.driver))()
    fresh = stage.open()
    if lose is None:
        _leave_one_out(fresh.driver)
    went = False
    for root, reported in zip(roots, before, strict=True):
        desired = again(root, running, "with a device gone")
        other = again(root, fresh, "with a device gone, a fresh driver's")
        expect_same(
            root, desired, other, "the running driver and a fresh one report different trees"
        )
        went = went or _takes_away(reported, desired)
    if not went:
        raise Broken("with a device gone the tree has everything that it had before")


def _leave_one_out(driver: ComputeDriver) -> None:
    """Let a DeviceDriver list all devices but one that is no other device's parent."""
    assert isinstance(driver, DeviceDriver)
    lists = driver.devices

    def devices(node: str) -> Listing:
        answer = lists(node)
        sources = answer if isinstance(answer, Mapping) else {"": answer}
        listed = {source: list(found) for source, found in sources.items()}
        every = [device for found in listed.values() for device in found]
        used = {node, *(device.parent for device in every)}
        out = next((each for each in reversed(every) if each.name not in used), None)
        left = {name: [it for it in found if it is not out] for name, found in listed.items()}
        return left if isinstance(answer, Mapping) else left[""]

    driver.devices = devices  # type: ignore[method-assign]  # of this one driver


def _reported(root: Root, loaded: LoadedDriver, lose: object) -> Snapshot:
    root.report(loaded)
    snapshot = root.read().view.snapshot
    if lose is None and len(list(snapshot.walk(root.uuid))) == 1:
        raise Inapplicable("this host has no device that can be left out: use one that has")
    if not any(provider.inventory for provider in snapshot.walk()):
        raise NotJudged(f"lose_device: node {root.node} has no inventory before")
    return snapshot


def _takes_away(before: Snapshot, after: Snapshot) -> bool:
    """Whether ``after`` lacks a provider, or has less of a class to allocate."""
    for provider in before.walk():
        now = after.get(provider.uuid)
        for name, record in provider.inventory.items():
            left = None if now is None else now.inventory.get(name)
            if left is None or left.with_defaults(record).capacity < record.capacity:
                return True
    return any(uuid not in after for uuid in before.providers)
