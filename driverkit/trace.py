"""Traces periods of a driver: what it was shown, what it said, and what became of each claim."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, NamedTuple

from agent.ownership.ledger import DRIVER, Holding, driver_of
from agent.reporting.reports import Condition, Report
from driverkit.stage import Root, Stage
from drivers.api import ComputeDriver, Device, DeviceDriver, ProviderTree
from drivers.loaded import LoadedDriver
from reportclient.plain_text import error_text
from reportclient.snapshot import EMPTY, Snapshot

PERIODS = 2
READS = (
    *("get_", "has_", "have_", "in_", "roots", "close", "data", "edits", "exists", "freeze"),
    *("lock", "provider", "records", "restore", "subtree", "_"),
)
EDITS = frozenset(name for name in vars(ProviderTree) if not name.startswith(READS))
"""Methods of the tree with which a driver says something."""


class Outcome(NamedTuple):
    """Outcome of one claim, and why if it is not as claimed."""

    outcome: str
    provider: str
    claim: str
    why: str = ""


@dataclass(slots=True)
class Trace:
    """One period of one node."""

    node: str
    number: int
    shown: Snapshot
    """Placement's tree as the driver was shown it."""
    said: list[str] = field(default_factory=list)
    """The devices that it listed, or else its calls on the tree, as an author writes them."""
    outcomes: list[Outcome] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    calls: int = 0
    """Requests to Placement."""


def traces(stage: Stage) -> Iterator[Trace]:
    """Yield the first periods of the driver's first node.

    :raises driverkit.broken.DriverRaised: the driver can't be opened, or names no nodes.
    """
    loaded = stage.open()
    for root in stage.roots(loaded)[:1]:
        for number in range(PERIODS):
            yield _trace(root, loaded, number + 1)


def _trace(root: Root, loaded: LoadedDriver, number: int) -> Trace:
    trace = Trace(root.node, number, EMPTY)
    before, ledger = root.view.snapshot, root.ledger
    with _recorded(loaded.driver, trace):
        report = root.period(loaded)
    claimed, earlier = dict[Key, None](), dict[Key, None]()
    for uuid, row in ledger.holders.items():
        for manager, held in row.items():
            if driver_of(manager) == DRIVER + loaded.name:
                earlier |= dict.fromkeys(_held(uuid, held))
    for statement in root.statements:
        for uuid, assertion in statement.assertions.items():
            claimed |= dict.fromkeys(_held(uuid, assertion.holding))
        for uuid, denied in statement.denied.items():
            earlier |= dict.fromkeys(_held(uuid, denied))
    after = root.read().view.snapshot
    claims = {**claimed, **earlier}
    claims.pop((root.uuid, "provider", ""), None)  # the root is the agent's
    for key in claims:
        outcome = _outcome(key, before, after, report, said=key in claimed)
        if outcome is not None:
            trace.outcomes.append(outcome)
    trace.conditions, trace.calls = list(report.conditions().values()), report.calls
    return trace


# -- what the driver says


@contextmanager
def _recorded(driver: ComputeDriver, trace: Trace) -> Iterator[None]:
    """Record what the driver is shown first, and what it says."""
    update = driver.update_provider_tree

    def recording_update(tree: ProviderTree, *arguments: Any, **named: Any) -> None:
        if trace.shown is EMPTY:
            trace.shown = tree.freeze()
        if not isinstance(driver, DeviceDriver):
            _record_edits(tree, trace.said)
        try:
            update(tree, *arguments, **named)
        except Exception as err:
            trace.said.append(f"raised {type(err).__name__}: {error_text(err)}")
            raise

    own = vars(driver)
    own["update_provider_tree"] = recording_update
    if isinstance(driver, DeviceDriver):
        own["devices"] = partial(_list, driver.devices, trace.said)
    try:
        yield
    finally:
        for name in ("update_provider_tree", "devices"):
            own.pop(name, None)


def _list(devices: Callable[[str], Any], said: list[str], node: str) -> Any:
    """Return what ``devices`` returns for a node, and record each device when it is read."""
    answer = devices(node)
    if isinstance(answer, Mapping):
        return {name: _listed(each, said, f"{name}: ") for name, each in answer.items()}
    return _listed(answer, said, "") if isinstance(answer, Iterable) else answer


def _listed(devices: Iterable[Device], said: list[str], source: str) -> Iterator[Device]:
    for device in devices:
        said.append(source + _written(device))
        yield device


def _written(device: object) -> str:
    """Return a device as an author writes it: without what has its default."""
    if not isinstance(device, Device):
        return repr(device)
    words = [repr(device.name), repr(dict(device.inventory))]
    given = ((it.name, getattr(device, it.name)) for it in fields(device)[len(words) :])
    default = Device("")
    words += [f"{name}={value!r}" for name, value in given if value != getattr(default, name)]
    return f"Device({', '.join(words)})"


def _record_edits(tree: ProviderTree, said: list[str]) -> None:
    """Record the calls that edit the tree, but not those that such a call makes itself."""
    inside = [False]

    def call(name: str, method: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
        if inside[0]:
            return method(*arguments, **named)
        words = [*map(repr, arguments), *(f"{key}={value!r}" for key, value in named.items())]
        said.append(f"{name}({', '.join(words)})")
        inside[0] = True
        try:
            return method(*arguments, **named)
        finally:
            inside[0] = False

    for name in EDITS:
        vars(tree)[name] = partial(call, name, getattr(tree, name))


# -- what became of it

Key = tuple[str, str, str]
"""A claim: the provider's UUID, its kind, and the name of the class, trait or aggregate."""


def _held(uuid: str, holding: Holding) -> Iterator[Key]:
    if holding.provider:
        yield uuid, "provider", ""
    for kind, names in (
        ("inventory", holding.classes),
        ("trait", holding.traits),
        ("aggregate", holding.aggregates),
    ):
        for name in sorted(names):
            yield uuid, kind, name


def _value(snapshot: Snapshot, key: Key) -> object:
    """Return what a snapshot has of a claim; ``None`` if nothing."""
    uuid, kind, name = key
    provider = snapshot.get(uuid)
    if provider is None:
        return None
    if kind == "provider":
        return provider.name, provider.parent_uuid
    if kind == "inventory":
        return provider.inventory.get(name)
    return True if name in provider.traits | provider.aggregates else None


def _outcome(
    key: Key, before: Snapshot, after: Snapshot, report: Report, *, said: bool
) -> Outcome | None:
    uuid, kind, name = key
    old, new = _value(before, key), _value(after, key)
    if not said and old is None:
        return None
    provider = after.get(uuid) or before.get(uuid)
    why = [problem.text for problem in report.plan.problems if problem.uuid == uuid]
    why += [error_text(err) for subject, err in report.failed.items() if subject in (uuid, name)]
    claim = f"{kind} {name}".strip()
    if kind == "inventory" and (record := provider and provider.inventory.get(name)):
        claim += f": total {record.total}, reserved {record.reserved}"
    title = provider.name if provider else uuid
    if said and new is not None:
        state = "added" if old is None else "unchanged" if old == new else "changed"
        return Outcome(state, title, claim)
    if said:
        return Outcome("not written", title, claim, "; ".join(why))
    if new is None:
        return Outcome("removed", title, claim, "not reported any more, or removed by name")
    reason = "; ".join(why) or "reported before, and not removed"
    return Outcome("stays", title, claim, "the driver failed" if report.driver_errors else reason)
