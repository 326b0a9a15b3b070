"""Judges of time and memory: with 1,000 devices, over many periods, and after a call.

Bounds are wide, and processor time is measured rather than elapsed time, so that a slow or busy
machine makes no difference.
"""

import gc
import inspect
import logging
import time
import tracemalloc
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from driverkit.broken import Broken, NotJudged, is_ours
from driverkit.stage import Root, Stage
from drivers.api import ComputeDriver
from drivers.loaded import LoadedDriver
from reportclient.provider_tree import ProviderTree
from reportclient.snapshot import Snapshot

DEVICES, FEWER = 1000, 100
PROCESSOR_SECONDS = 10.0
"""For one period of 1,000 devices: a sixth of the agent's period."""
GROWTH = 40.0
"""The most by which the time may grow from 100 to 1,000 devices: 10 is linear, 100 quadratic."""
AT_LEAST = 0.01
"""Seconds; a shorter time counts as this one, since clocks are coarse."""
BYTES_PER_DEVICE = 64 * 1024
FRAMES = 6
"""Stack frames recorded for each allocation of memory, to find the driver's line."""
PERIODS = 12
BYTES_THAT_STAY = 12 * 1024
"""The most that these periods may leave; a copy of a small tree in each is more."""
TIME_FOR_PERIODS = 20.0

MakeBigDriver = Callable[..., ComputeDriver]
"""Creates a driver of 1,000 devices, or of the number it is called with (to judge growth)."""


def bounded_time(stage: Stage, make: MakeBigDriver) -> None:
    """Judge the time of a first and a quiet period, and its growth from 100 devices."""
    many = _seconds(stage, make, DEVICES)
    for what, seconds in many.items():
        if seconds > PROCESSOR_SECONDS:
            raise Broken(
                f"{what} of {DEVICES} devices took {seconds:.1f} s of processor time, more than "
                f"{PROCESSOR_SECONDS:g}"
            )
    if _takes_a_number(make):
        few = _seconds(stage, make, FEWER)
        for what, seconds in many.items():
            usual = max(few[what], AT_LEAST)
            if seconds > GROWTH * usual:
                raise Broken(
                    f"{what} took {seconds:.2f} s of processor time for {DEVICES} devices, "
                    f"{few[what]:.3f} s for {FEWER}: that is {seconds / usual:.0f} times as long "
                    f"for {DEVICES // FEWER} times the devices"
                )


def bounded_memory(stage: Stage, make: MakeBigDriver) -> None:
    """Judge the peak memory use of a period."""
    loaded = stage.open(_maker(make, DEVICES))
    snapshots = []
    for root in stage.roots(loaded):
        tree = root.fresh()
        with _traced():
            before = tracemalloc.get_traced_memory()[0]
            root.update_provider_tree(loaded, tree)
            peak = tracemalloc.get_traced_memory()[1] - before
        snapshots.append(tree.freeze())
        if peak > DEVICES * BYTES_PER_DEVICE:
            raise Broken(
                f"node {root.node}: {peak / 2**20:.0f} MiB for a period of {DEVICES} devices, "
                f"more than {DEVICES * BYTES_PER_DEVICE / 2**20:.0f}"
            )
    _expect_devices(snapshots)


def steady_memory(stage: Stage) -> None:
    """Judge the memory that quiet periods leave, in two equal runs of periods."""
    loaded, roots = stage.reported()
    for root in roots[:1]:
        with _unheard(), _traced():
            _periods(root, loaded)
            first = tracemalloc.take_snapshot()
            stays = [_stays(root, loaded) for _ in range(2)]
            if min(stays) > BYTES_THAT_STAY:
                where = _where(first, tracemalloc.take_snapshot())
                raise Broken(
                    f"node {root.node}: {PERIODS} quiet periods left {stays[0] // 1024} KiB, the "
                    f"next {PERIODS} another {stays[1] // 1024} KiB{where}"
                )


class _Allocations(dict[str, dict[str, Any]]):
    """A dict that can be referred to by a weakref."""


def tree_not_kept(stage: Stage) -> None:
    """Judge whether the driver keeps the tree or the allocations after it has returned."""
    loaded = stage.open()
    for root in stage.roots(loaded):
        handed = _handed_over(root, loaded)
        gc.collect()
        for what, ref in handed.items():
            if (left := ref()) is not None:
                raise Broken(
                    f"node {root.node}: {what} still exists after update_provider_tree has "
                    f"returned{_holder(loaded, left)}"
                )


def _handed_over(root: Root, loaded: LoadedDriver) -> dict[str, weakref.ref[Any]]:
    tree, allocations = root.fresh(), _Allocations()
    root.update_provider_tree(loaded, tree)
    again = root.fresh()
    root.update_provider_tree(loaded, again, allocations)
    return {
        "the tree": weakref.ref(tree),
        "the tree that came with allocations": weakref.ref(again),
        "the dict of allocations": weakref.ref(allocations),
    }


def _holder(loaded: LoadedDriver, left: object) -> str:
    """Return the driver's attribute that holds the object, as text; empty if unknown."""
    for name, value in getattr(loaded.driver, "__dict__", {}).items():
        if value is left or (isinstance(value, list | tuple | set) and left in value):
            return f", in self.{name}"
        if isinstance(value, dict) and any(item is left for item in value.values()):
            return f", in self.{name}"
    return ""


def _stays(root: Root, loaded: LoadedDriver) -> int:
    before = tracemalloc.get_traced_memory()[0]
    _periods(root, loaded)
    return tracemalloc.get_traced_memory()[0] - before


def _periods(root: Root, loaded: LoadedDriver) -> None:
    end = time.monotonic() + TIME_FOR_PERIODS
    for _ in range(PERIODS):
        root.desired(loaded)
        if time.monotonic() > end:
            break
    gc.collect()


def _where(before: tracemalloc.Snapshot, after: tracemalloc.Snapshot) -> str:
    """Return the driver's line that allocated most of it, as text; empty if unknown."""
    growth = after.compare_to(before, "traceback")
    frames = [frame for entry in growth[:1] for frame in reversed(entry.traceback)]
    theirs = [f"{frame.filename}:{frame.lineno}" for frame in frames if not is_ours(frame.filename)]
    return f"; most of it at {theirs[0]}" if theirs else ""


def _seconds(stage: Stage, make: MakeBigDriver, devices: int) -> dict[str, float]:
    loaded = stage.open(_maker(make, devices))
    took = {"a first period": 0.0, "a quiet period": 0.0}
    snapshots = []
    for root in stage.roots(loaded):
        tree = root.fresh()
        for what in took:
            start = time.process_time()
            root.update_provider_tree(loaded, tree)
            took[what] += time.process_time() - start
            tree = ProviderTree(tree.freeze())
        snapshots.append(tree.base)
    if devices == DEVICES:
        _expect_devices(snapshots)
    return took


def _maker(make: MakeBigDriver, devices: int) -> Callable[[], ComputeDriver]:
    return (lambda: make(devices)) if _takes_a_number(make) else make


def _takes_a_number(make: MakeBigDriver) -> bool:
    try:
        inspect.signature(make).bind(DEVICES)
    except TypeError:
        return False
    return True


def _expect_devices(snapshots: Iterable[Snapshot]) -> None:
    """Refuse a driver with fewer devices, which would stay within any bound."""
    providers = [provider for snapshot in snapshots for provider in snapshot.walk()]
    units = sum(record.total for it in providers for record in it.inventory.values())
    if max(len(providers), units) < DEVICES:
        raise NotJudged(
            f"make_big_driver: {len(providers)} providers and {units} units of inventory are "
            f"reported, not {DEVICES} devices"
        )


@contextmanager
def _unheard() -> Iterator[None]:
    """Drop what the driver logs or warns in the block: pytest keeps it, which is no leak."""
    handlers, logging.root.handlers = logging.root.handlers, [logging.NullHandler()]
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        logging.root.handlers = handlers


@contextmanager
def _traced() -> Iterator[Any]:
    """Trace memory in the block, unless it is traced already."""
    mine = not tracemalloc.is_tracing()
    if mine:
        tracemalloc.start(FRAMES)
    gc.collect()
    tracemalloc.reset_peak()
    try:
        yield
    finally:
        if mine:
            tracemalloc.stop()
