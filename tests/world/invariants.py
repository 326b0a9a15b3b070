"""The rules of a history: after each write of an agent, at any time, and once all faults have ended.

``docs/world.rst`` lists them.  A :class:`Violation` names the rule and the host.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from agent.ownership.policy import DISABLED
from agent.period.traits import tag_of
from agent.reporting.reports import Report
from reportclient.root import ATTEMPTS
from tests.world.files import CLASS, TRAIT, added_to
from tests.world.machine import BEAT, INTERVAL, OWNER, RESTART, Machine
from tests.world.setup import AUDIT

if TYPE_CHECKING:
    from tests.world.hypervisor import Hypervisor
    from tests.world.world import World


TWIN = "degraded twin"
"""The condition of an agent whose writes another agent undoes."""
ALLOWED = (
    "not removed, nor its parent, which a driver removed",
    "below it is owned by another service",
    "its providers may have been changed, and are checked again",
    "not set again: the owner of this root removed it",
)
"""Conditions that are correct even after faults have ended: of foreign children, or foreign roots."""
RESHAPE = "needs a reshape, which is not allowed now"
"""Also correct after a twin, whose inventory is foreign: the driver keeps asking for a reshape."""

QUARREL = 100
"""Writes of each of two twins after which one of them has to have a condition."""
FOLLOWS = INTERVAL + 1.2 * BEAT + RESTART
"""Seconds until the trait is right: the next heartbeat reads the record, the next period writes it."""


class Violation(BaseException):
    """A rule is violated; derived from BaseException, so that no agent catches it."""


class Invariants:
    def __init__(self, world: World) -> None:
        self.world = world
        self.log = Tracebacks()

    # -- after each write of an agent

    def check_write(self, machine: Machine, method: str, path: str, uuid: str | None) -> None:
        placement = self.world.placement
        self._check_novas_root(machine, method, path, uuid)
        self._check_removal(machine, method, uuid)
        if uuid is not None:
            self._check_own_provider(machine, method, uuid)
            self._check_foreign(machine, method, uuid)
        else:
            for each in list(placement.foreign.claims):
                self._check_foreign(machine, method, each)
        if placement.allocations() != placement.foreign.guests:
            raise Violation(
                f"{machine.label} has changed allocations: they are {placement.allocations()}, "
                f"not {placement.foreign.guests}"
            )

    def _check_own_provider(self, machine: Machine, method: str, uuid: str) -> None:
        if uuid not in machine.uuids and uuid not in machine.twin_uuids:
            raise Violation(f"{machine.label} has sent a {method} for the foreign provider {uuid}")

    def _check_foreign(self, machine: Machine, method: str, uuid: str) -> None:
        row = self.world.placement.rows.get(uuid)
        if row is None:
            return
        leaves = (machine.setup.attached or method == "POST") and self._is_leaving(machine, uuid)
        claims = self.world.placement.foreign.claims.get(uuid, {})
        for (kind, name), value in list(claims.items()):
            if _value_of(row, kind, name) == value:
                continue
            if leaves or self._generations_repeat():
                del claims[kind, name]
            else:
                raise Violation(
                    f"{machine.label} has changed the foreign {kind} {name} of {row.name} "
                    f"by a {method}"
                )

    def _generations_repeat(self) -> bool:
        """Whether Placement was restored and the agent has not audited it since.

        Until then a foreign write may get just the generation that the agent expects.
        """
        since = self.world.scheduler.now - self.world.placement.restored_at
        return since < 1.5 * AUDIT + INTERVAL

    def _is_leaving(self, machine: Machine, uuid: str) -> bool:
        """Whether the driver does not report this provider any more.

        Then it is removed, foreign data included; by a reshape, or in attach mode, it is emptied
        first.
        """
        for node in machine.nodes:
            part = node.uuids.get(uuid)
            if part:
                return part not in node.answered.get(node.driver_of(part), (part,))
        return False

    def _check_novas_root(self, machine: Machine, method: str, path: str, uuid: str | None) -> None:
        """Check that of nova-compute's root nothing but traits is written."""
        node = machine.hypervisor
        if node.attached and uuid == node.root and not path.endswith("/traits"):
            raise Violation(f"{machine.label} has sent {method} {path} to nova-compute's root")

    def _check_removal(self, machine: Machine, method: str, uuid: str | None) -> None:
        """Check that no provider is removed that its driver reported last.

        A DELETE that was given up and is carried out late is excepted: it has no generation, and the
        agent repairs it.
        """
        removes = method == "DELETE" and not self.world.placement.is_late
        for node in machine.nodes if removes else ():
            part = node.uuids.get(uuid or "")
            if part and not node.gone and part in node.answered.get(node.driver_of(part), ()):
                raise Violation(f"{machine.label} has removed {part}, which its driver reported")

    # -- after each period

    def check_number_of_calls(self, machine: Machine, report: Report) -> None:
        """Check the number of calls: one try reads everything once, and writes each part once."""
        placement = self.world.placement
        node = next((n for n in machine.nodes if n.host == report.node), machine.hypervisor)
        providers = len(placement.tree(node.root)) + 2 + len(node.uuids) * node.attached
        reads = 2 + 4 * providers + len(placement.allocations())
        most = ATTEMPTS * (reads + 6 * len(node.uuids))
        if report.calls > most:
            raise Violation(
                f"{machine.label} sent {report.calls} calls in one period, more than {most}"
            )

    # -- at any time

    def check_log(self) -> None:
        if self.log.texts:
            raise Violation(f"an agent logged a traceback: {self.log.texts[0]}")

    def check_twins_reported(self, machine: Machine, twin: Machine) -> None:
        """Check that two agents which write to one tree report it as a condition."""
        both_wrote = min(machine.writes, twin.writes) >= QUARREL
        if both_wrote and not (machine.warnings or twin.warnings):
            raise Violation(
                f"{machine.label} and {twin.label} wrote to one tree {machine.writes} and "
                f"{twin.writes} times, and neither reported it"
            )

    def check_statuses(self) -> None:
        """Check that each host has the status decided last, soon after faults have ended."""
        now = self.world.scheduler.now
        for machine in self.world.machines:
            providers = self.world.placement.rows
            rows = [providers.get(node.root) for node in machine.nodes if not node.gone]
            wanted = self.world.operators.expected(machine)
            right = all(row is None or (DISABLED in row.traits) in wanted for row in rows)
            if right or self.world.is_troubled(machine) or self._generations_repeat():
                machine.wrong_since = None
            elif machine.wrong_since is None:
                machine.wrong_since = now
            elif now - machine.wrong_since > FOLLOWS:
                raise Violation(
                    f"{machine.label} does not have the status decided last (disabled: "
                    f"{sorted(wanted)}), {now - machine.wrong_since:.0f} s after faults have ended"
                )

    # -- once faults have ended

    def is_equal(self) -> bool:
        return next(self._all_differences(), None) is None

    def check_equal(self) -> None:
        for text in self._all_differences():
            raise Violation(text)

    def _all_differences(self) -> Iterator[str]:
        for machine in self.world.machines:
            if machine.is_on:
                for text in self._differences(machine):
                    yield f"{machine.label}, after all faults: {text}"

    def check_quiet(self, before: dict[str, int]) -> None:
        """Check that nothing was written since."""
        rows = self.world.placement.rows
        now = {uuid: row.generation for uuid, row in rows.items()}
        moved = [rows[uuid].name for uuid in now if now[uuid] != before.get(uuid)]
        if moved or now.keys() != before.keys():
            raise Violation(f"agents keep writing although nothing changes: {moved}")

    def _differences(self, machine: Machine) -> Iterator[str]:
        if not machine.is_up:
            yield f"its agent does not run ({machine.refused})"
        for node in machine.nodes:
            yield from (
                self._vanished_node_differences(machine, node)
                if node.gone
                else self._node_differences(machine, node)
            )
        rows = self.world.placement.rows
        parents = [uuid for uuid in rows if self._has_foreign_child(uuid)]
        stays = [f"Unable to delete parent resource provider {uuid}" for uuid in parents]
        yield from _unexpected_conditions(machine, stays)

    def _node_differences(self, machine: Machine, node: Hypervisor) -> Iterator[str]:
        placement = self.world.placement
        foreign = placement.foreign.providers
        present = {uuid for uuid in placement.tree(node.root) if uuid not in foreign}
        outside = placement.rows.keys() & node.uuids.keys() - present
        wanted = {node.uuid(name) for name in node.parts}
        wanted |= {uuid for uuid in present if self._has_foreign_child(uuid)}
        named = {uuid: node.name(part) for uuid, part in node.uuids.items()}
        if present != wanted and not (machine.forgot and present > wanted):
            yield (
                f"the tree has {sorted(named.get(each, each) for each in present)}, "
                f"not {sorted(named.get(each, each) for each in wanted)}"
            )
        # What a restore brought back outside of the tree, computectl audit names.
        for uuid in () if machine.forgot else outside - placement.restored_outside:
            if not self._has_foreign_child(uuid):
                yield f"{named[uuid]} is still outside of the tree"
        for name in node.parts:
            yield from self._part_differences(machine, node, name)

    def _vanished_node_differences(self, machine: Machine, node: Hypervisor) -> Iterator[str]:
        """The provider is deleted, unless it lacks the service tag or has foreign children."""
        row = self.world.placement.rows.get(node.root)
        is_its_own = row is not None and _service_tag(machine) in row.traits
        # After a restore it stays: the agent has no ledger for this node any more.
        is_left = machine.forgot or self.world.placement.restored_at >= 0
        if is_its_own and not self._has_foreign_child(node.root) and not is_left:
            yield f"the provider of the vanished node {node.host} was not deleted"

    def _has_foreign_child(self, uuid: str) -> bool:
        """Whether a foreign provider is below this one, which then cannot be deleted."""
        placement = self.world.placement
        return any(each in placement.tree(uuid) for each in placement.foreign.providers)

    def _part_differences(self, machine: Machine, node: Hypervisor, name: str) -> Iterator[str]:
        placement = self.world.placement
        part, uuid = node.parts[name], node.uuid(name)
        row = placement.rows.get(uuid)
        if row is None:
            return
        expected_name = node.name(name)
        if row.name != expected_name:
            yield f"{expected_name} has the name {row.name}"
        parent = node.parent(name) if name else None
        if row.parent != parent:
            yield f"{expected_name} is below {row.parent}, not {parent}"
        claims = placement.foreign.claims.get(uuid, {})
        late = {name for provider, name in machine.late if provider == uuid}
        made_anew = uuid in placement.deleted and placement.restored_at >= 0
        # A second restore may bring a later state than the first, so generations tell nothing.
        forgot = machine.forgot or made_anew or placement.restores > 1
        differ = partial(_differ, expected_name, claims, late, forgot)
        if node.attached and not name:
            yield from self._novas_root_differences(machine, node, row)
            return
        filed = added_to(node, name)
        records = {part.resource_class: part.total} | ({CLASS: filed} if filed else {})
        yield from differ("class", set(row.inventory), set(records))
        for resource_class, total in records.items():
            record = row.inventory.get(resource_class, {})
            if (record.get("total"), record.get("reserved")) != (total, 0):
                yield f"{expected_name} has {record} of {resource_class}, not {total}"
        own = {*node.traits(name), *([] if name else [OWNER, "COMPUTE_NODE"])}
        own |= {TRAIT} if filed else set()
        own |= {_service_tag(machine)} if not name and len(machine.nodes) > 1 else set()
        status = self.world.operators.expected(machine) if not name else {False}
        traits = set(row.traits) - {DISABLED}
        if (DISABLED in row.traits) not in status:
            is_so = "is" if DISABLED in row.traits else "is not"
            yield f"{expected_name} {is_so} disabled, unlike decided last"
        yield from differ("trait", traits, own)
        yield from differ("aggregate", set(row.aggregates), set(part.aggregates))

    def _novas_root_differences(
        self, machine: Machine, node: Hypervisor, row: Any
    ) -> Iterator[str]:
        """Asserted traits may be missing: what the owner removed is not set again."""
        wanted = self.world.placement.foreign.claims.get(node.root, {})
        for kind, name in wanted:
            if not _value_of(row, kind, name):
                yield f"{row.name} lacks the foreign {kind} {name}"
        foreign = {name for kind, name in wanted if kind == "trait"}
        # After a restore of Placement the agent removes nothing from this root.
        is_left = machine.forgot or self.world.placement.restored_at >= 0
        for name in () if is_left else sorted(row.traits - foreign - node.traits("")):
            yield f"{row.name} has the trait {name}"


def _differ(
    expected_name: str,
    claims: dict[tuple[str, str], Any],
    late: set[str],
    forgot: bool,
    kind: str,
    present: set[str],
    ours: set[str],
) -> Iterator[str]:
    """Yield what differs; an agent that ``forgot`` leaves data that it cannot know to be its own."""
    wanted = ours | {name for a_kind, name in claims if a_kind == kind}
    for name in sorted(wanted - present if forgot else (present ^ wanted) - (late & present)):
        yield f"{expected_name} {'has' if name in present else 'lacks'} the {kind} {name}"


def _value_of(row: Any, kind: str, name: str) -> Any:
    """Return a provider's inventory of a class, or whether it has a trait or an aggregate."""
    if kind == "class":
        return row.inventory.get(name)
    return name in (row.traits if kind == "trait" else row.aggregates)


def _unexpected_conditions(machine: Machine, stays: Sequence[str]) -> Iterator[str]:
    """Yield a text for each; ``stays`` are Placement's texts about providers that have to stay."""
    process = machine.process
    if process is None:
        return
    if not process.reports:
        yield "its agent has not reported yet"
    for report in process.reports:
        texts = [str(each) for key, each in sorted(report.conditions().items()) if key != TWIN]
        allowed = (*ALLOWED, *stays, *([RESHAPE] if machine.twin_uuids else []))
        unexpected = (text for text in texts if not any(part in text for part in allowed))
        yield from (f"its agent has the condition: {text}" for text in unexpected)


def _service_tag(machine: Machine) -> str:
    process = machine.process
    nodes = process.nodes if process is not None else None
    return "" if nodes is None else tag_of(nodes.compute_id)


class Tracebacks(logging.Handler):
    """Collects log records with a traceback, which no simulated fault should cause."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            err = record.exc_info[1]
            self.texts.append(f"{record.getMessage()}: {type(err).__name__}: {err}")
