"""Plan the next period of each node, with its exact calls, without writing."""

import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from agent import config
from agent.nodes.identity import IdentityError
from agent.nodes.nodes import Nodes
from agent.period.attach import RootAwaited
from agent.period.tracker import Tracker
from agent.reporting.condition import Condition, Severity, of_period, of_write
from agent.reporting.systemd import Systemd
from agent.service import Service
from agent.state.document import Unusable
from agent.state.driver_store import DriverStore
from agent.switching.host_status import saved_status, status_document
from computectl.shared.command_session import Session
from drivers.api import DriverContext
from drivers.errors import DriverError, ReshapeFailed
from drivers.loader import load_drivers
from reportclient import plan as ops
from reportclient.apply import http_call, refuse_if_shared
from reportclient.errors import InUse, Kept, Shared
from reportclient.http import API
from reportclient.model import used_providers
from reportclient.plain_text import error_text
from reportclient.reader import provider_by_name
from reportclient.refusals import explained, name_taken_error, users_by_class
from reportclient.reshape import generations_after
from reportclient.snapshot import EMPTY, Snapshot


@dataclass(frozen=True, slots=True)
class Call:
    """The request of one operation; ``body`` is ``None`` for an empty one."""

    operation: ops.Operation
    method: str
    path: str
    body: dict[str, Any] | None


def calls_of(plan: ops.Plan, generations: Mapping[str, int]) -> Iterator[Call]:
    """Yield the calls of a plan in order; ``generations``: of the view, by UUID."""
    current = dict(generations)
    for operation in plan:
        if isinstance(operation, ops.DeleteProvider) and operation.kept:
            continue  # nothing is sent
        yield Call(operation, *http_call(operation, current))
        match operation:
            case ops.CreateProvider(uuid):
                current[uuid] = 0
            case ops.SetTraits(uuid) | ops.SetAggregates(uuid) | ops.SetInventory(uuid):
                current[uuid] = current.get(uuid, 0) + 1
            case ops.Reshape() | ops.SetInventories():
                current.update(generations_after(operation, current))
            case ops.DeleteProvider(uuid):
                current.pop(uuid, None)
            case ops.UpdateProvider() | ops.EnsureTrait() | ops.EnsureClass():
                pass


PLACEHOLDER = "00000000-0000-4000-8000-000000000000"
"""Stands for the compute_id that the agent creates at its first start."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The planned period of a node: ``before`` is Placement's state; ``calls`` are in order."""

    node: str
    uuid: str
    before: Snapshot
    plan: ops.Plan
    calls: tuple[Call, ...]
    conditions: tuple[Condition, ...]
    reshape_pending: bool = False

    def sentences(self, *severities: Severity) -> list[str]:
        """Return the conditions of these severities with their next steps."""
        return [each.sentence for each in self.conditions if each.severity in severities]


def forecast(session: Session, *, at_start: bool) -> list[Forecast]:
    """Plan a period of each node, with the drivers loaded and queried as by the agent.

    ``at_start``: plan the first period after a start, in which a reshape is allowed.
    """
    api = session.placement()
    attached = session.settings.rules.attached
    own = session.compute_id() or ("" if attached else PLACEHOLDER)
    with open_nodes(session, own, api) as nodes:
        disabled, unknown = saved_disabled(session)
        trackers = nodes.trackers
        forecasts = [
            forecast_root(tracker, nodes, api, at_start, disabled, more=unknown)
            for tracker in trackers.values()
        ]
        notes = nodes.provider_files.notes(trackers)
        warnings = tuple(notes)
        for name, err in nodes.table.awaited.items():  # another service creates these
            forecasts.append(Forecast(name, "", EMPTY, ops.Plan(), (), (of_period(err),)))
        if forecasts:
            conditions = (*forecasts[-1].conditions, *warnings)
            forecasts[-1] = replace(forecasts[-1], conditions=conditions)
        return forecasts


def forecast_root(  # noqa: PLR0913  one caller
    tracker: Tracker,
    nodes: Nodes,
    api: API,
    at_start: bool,
    disabled: bool | None,
    *,
    more: Iterable[Condition] = (),
) -> Forecast:
    """Return the forecast of a root; a failed driver becomes a condition.

    ``more``: conditions of the host, which a forecast with a plan has, too.
    """
    tracker.started = frozenset(() if at_start else [each.name for each in tracker.drivers])
    plan, reshape_pending = ops.Plan(), False
    try:
        decision = tracker.forecast(time.monotonic(), disabled=disabled)
    except (ReshapeFailed, RootAwaited, ValueError) as err:
        conditions = [of_period(err)]
    else:
        plan = _without_waiting(decision.plan, tracker, api)
        plan = ops.with_bulk_writes(plan, nodes.bulk.chunk, nodes.bulk.least)
        decision = replace(decision, plan=plan)
        conditions = [
            *tracker.conditions(decision, tracker.root.refusals.errors()),
            *nodes.provider_files.conditions(),
            *more,
            *_taken_names(tracker, plan, api),
        ]
        reshape_pending = bool(decision.collected.reshape_pending)
    return Forecast(
        tracker.node,
        tracker.uuid,
        tracker.view.snapshot,
        plan,
        tuple(calls_of(plan, tracker.view.generations)),
        tuple(conditions),
        reshape_pending,
    )


def _without_waiting(plan: ops.Plan, tracker: Tracker, api: API) -> ops.Plan:
    """Return the plan as it is sent: what consumers use is drained, not removed.

    The root's refusals have these removals afterwards.  1 GET for each removal, 2 if it is in use.
    """
    view, refusals = tracker.view, tracker.root.refusals
    moved, waiting = dict[str, Any](), set[str]()
    for operation in plan:
        if isinstance(operation, ops.Reshape):
            moved.update(operation.allocations)
        if not isinstance(operation, ops.DeleteProvider | ops.SetInventory):
            continue
        wanted = operation.inventory if isinstance(operation, ops.SetInventory) else {}
        had = view.snapshot.get(operation.uuid)
        if had is None or not had.inventory.keys() - wanted.keys():
            continue
        try:
            if isinstance(operation, ops.DeleteProvider):
                refuse_if_shared(had, view.generations, api, operation.kept)
            users = set(chain(*users_by_class(operation, api).values())) - moved.keys()
            if not users and had.uuid not in used_providers(moved):
                continue
            err = explained(InUse("in use"), operation, view.snapshot, api)
        except (Kept, Shared) as shared:
            err = shared
        waiting.add(had.uuid)
        refusals.add(operation, err)
    sent = [
        each
        for part in refusals.suppress(plan, view.snapshot)
        for each in refusals.without_exceeded(part, view.snapshot, api)
        if not isinstance(each, ops.DeleteProvider)
        or not any(below.uuid in waiting for below in view.snapshot.walk(each.uuid))
    ]
    drains = refusals.drains(view.snapshot, plan, tracker.ledger.foreign_classes)
    return replace(plan, operations=(*sent, *drains))


def _taken_names(tracker: Tracker, plan: ops.Plan, api: API) -> Iterator[Condition]:
    """Yield a condition if the plan creates a root whose name another provider has."""
    for operation in plan:
        if isinstance(operation, ops.CreateProvider) and operation.uuid == tracker.uuid:
            other = provider_by_name(operation.name, api)
            if other is not None:
                err = name_taken_error(operation.uuid, operation.name, other)
                yield of_write(operation.uuid, err, plan.names, tracker.node)


def saved_disabled(session: Session) -> tuple[bool | None, list[Condition]]:
    """Return whether this host is disabled, from ``service.json``.  Never raises.

    ``None`` if that is unknown, with a condition if the file can't be read.
    """
    try:
        return saved_status(status_document(session.settings.state_path)).disabled, []
    except Unusable as err:
        text = f"whether this host is disabled is not known: {err}"
        return None, [Condition(text, "compute-agent replaces a damaged file")]


@contextmanager
def open_nodes(session: Session, compute_id: str, api: API) -> Iterator[Nodes]:
    """Open the nodes of this host's drivers, with ``nodes.trackers`` filled; close them at exit.

    Of the agent's state only what Placement does not have is loaded, such as the ledger; nothing
    is saved.  Provider files are read again.

    :raises drivers.errors.DriverError: a driver can't be loaded or opened, or can't name its
        nodes.
    :raises agent.config.ConfigError: nothing reads an option of the files.
    """
    settings = session.settings
    with redirect_stdout(sys.stderr):  # keep what drivers print out of the command's output
        store = DriverStore(settings.state_path, writing=False)
        context = DriverContext(settings.host, settings.state_path, session.conf, store=store)
        drivers = load_drivers(settings.drivers, context)
        config.refuse_unknown(session.conf)
        nodes = Nodes.from_settings(settings, drivers, api, compute_id, writing=False)
        nodes.provider_files.load_files()
        service = Service(settings.host, nodes, Systemd(), stop=lambda: False)
        try:
            service.open()
            try:
                nodes.current()
            except IdentityError:
                raise
            except (Exception, SystemExit) as err:
                what = f"driver {nodes.drivers[0].name} can't name its nodes: {error_text(err)}"
                raise DriverError(what) from err
            yield nodes
        finally:
            service.close()
