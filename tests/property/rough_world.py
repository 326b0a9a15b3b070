"""A host, its agent and a stranger over one Placement, driven step by step by plain data.

Everything happens to whatever sends requests, so the same steps run against the fake
and against a real Placement.
"""

from __future__ import annotations

import re
import shutil
import uuid as uuidlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.nodes.nodes import Nodes
from agent.state.root_file import RootFile, root_path, saved_roots
from drivers.api import ComputeDriver, DriverContext, ReshapeNeeded
from reportclient import errors
from reportclient.apply import FAULTS
from reportclient.root import ATTEMPTS, BulkWrites
from reportclient.testing.fake_placement import Stranger
from reportclient.view import View
from tests.agents import Agent

ROOT = "c0ffee00-0000-4000-8000-000000000001"
NODE = "host1"
OWNER = "CUSTOM_OWNER_COMPUTE_AGENT"
STRANGERS_CHILD = "dddddddd-0000-4000-8000-000000000001"
SQUATTER = "dddddddd-0000-4000-8000-000000000002"
NAMES = (NODE, "p1", "p2", "p3", "p4")
TRAITS = ("HW_CPU_X86_AVX", "HW_CPU_X86_AVX2", "CUSTOM_ONE")
STRANGERS_TRAITS = ("CUSTOM_STRANGE", "HW_CPU_X86_SSE")
CLASSES = ("VCPU", "CUSTOM_THING")
AGGREGATES = tuple(f"aaaaaaaa-0000-4000-8000-00000000000{n}" for n in range(2))
STRANGERS_CLASSES = ("PGPU", "SRIOV_NET_VF")
STRANGERS_AGGREGATE = "bbbbbbbb-0000-4000-8000-000000000001"
STRANGERS_THINGS = {*STRANGERS_TRAITS, *STRANGERS_CLASSES, STRANGERS_AGGREGATE}
VERIFY, AUDIT = 300.0, 36000.0


def uuid_of(name: str) -> str:
    return ROOT if name == NODE else str(uuidlib.uuid5(uuidlib.UUID(ROOT), name))


OURS = {uuid_of(name): name for name in NAMES}


@dataclass(frozen=True)
class Wished:
    parent: str | None
    total: int
    resource_class: str
    traits: frozenset[str]
    aggregates: frozenset[str]


class Wishing(ComputeDriver):
    """Says ``wish``; leaves alone what is not its own.

    With ``moves`` a class that goes from one provider to others takes its allocations along.
    """

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self.wish: dict[str, Wished] = {}
        self.moves = False

    def get_available_nodes(self):
        return [NODE]

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        moved = list(self._moved(provider_tree)) if self.moves else []
        if moved and allocations is None:
            raise ReshapeNeeded
        self._edit(provider_tree)
        for there, resource_class, heir in moved:
            for held in (allocations or {}).values():
                give(held["allocations"], there, resource_class, heir)

    def _moved(self, tree):
        """``(provider that loses it, class, provider that gets it)``."""
        for resource_class in CLASSES:
            having = [n for n, w in self.wish.items() if w.resource_class == resource_class]
            losing = [
                name
                for name in NAMES
                if name not in having
                and tree.exists(uuid_of(name))
                and resource_class in tree.data(uuid_of(name)).inventory
            ]
            yield from (
                (uuid_of(name), resource_class, uuid_of(having[-1])) for name in losing if having
            )

    def _edit(self, provider_tree):
        for name, wished in self.wish.items():
            uuid = uuid_of(name)
            if not provider_tree.exists(uuid):
                provider_tree.new_child(name, wished.parent, uuid)
            provider_tree.rename(uuid, name)
            if wished.parent is not None:
                provider_tree.move(uuid, wished.parent)
            record = {"total": wished.total, "reserved": 0, "max_unit": 3}
            provider_tree.update_inventory(name, {wished.resource_class: record})
            provider_tree.remove_traits(name, *set(TRAITS) - wished.traits)
            provider_tree.add_traits(name, *wished.traits)
            provider_tree.remove_aggregates(name, *set(AGGREGATES) - wished.aggregates)
            provider_tree.add_aggregates(name, *wished.aggregates)
        for name in NAMES:
            if name not in self.wish and provider_tree.exists(uuid_of(name)):
                provider_tree.remove(uuid_of(name))


def well(report: Any) -> bool:
    """But for a stranger who is taken for a twin."""
    return report.ok or report.conditions().keys() == {"degraded twin"}


def give(parts: dict[str, Any], there: str, resource_class: str, heir: str) -> None:
    amount = parts.get(there, {"resources": {}})["resources"].pop(resource_class, 0)
    if amount:
        resources = parts.setdefault(heir, {"resources": {}})["resources"]
        resources[resource_class] = resources.get(resource_class, 0) + amount


@dataclass
class Failure:
    method: str
    path: re.Pattern[str]
    error: errors.PlacementError
    after: bool
    lasting: bool = False
    """Each such call fails, and not just the next."""


@dataclass
class Meddling:
    """Somebody acts right before a call; on its provider, where it has one of ours."""

    method: str
    path: re.Pattern[str]
    act: Callable[[str | None], None]


@dataclass
class Rough:
    """The way to Placement, with failures and with strangers who come in between."""

    send: Callable[..., dict[str, Any]]
    failures: list[Failure] = field(default_factory=list)
    meddling: list[Meddling] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    calls: int = 0
    seen: list[tuple[str, str]] = field(default_factory=list)
    """The calls of the last period."""
    writes: list[tuple[str, str]] = field(default_factory=list)

    def request(self, method: str, path: str, *, json: Any = None, needs: str | None = None):
        self.calls += 1
        self.seen.append((method, path))
        self._meddle(method, path)
        if method != "GET":
            self.writes.append((method, path))
        failure = next(
            (f for f in self.failures if f.method == method and f.path.search(path)), None
        )
        if failure is None:
            return self._sent(method, path, json)
        if not failure.lasting:
            self.failures.remove(failure)
        if failure.after:
            self._sent(method, path, json)
        raise failure.error

    def _meddle(self, method: str, path: str) -> None:
        for one in [m for m in self.meddling if m.method == method and m.path.search(path)][:1]:
            self.meddling.remove(one)
            found = re.match(r"/resource_providers/([^/]+)", path)
            one.act(OURS.get(found[1]) if found else None)

    def _sent(self, method: str, path: str, json: Any) -> dict[str, Any]:
        reply = self.send(method, path, json=json)
        if method == "DELETE":
            self.deleted.append(path.rsplit("/", 1)[1])
        return reply


@dataclass
class World:
    """``send`` is unrecorded and never fails by order; ``state`` is a directory for views."""

    send: Callable[..., dict[str, Any]]
    state: Path
    at_once: int = 1
    chunk: int = 0
    now: float = 0.0
    driver: Wishing = field(default_factory=lambda: Wishing(DriverContext(NODE, Path("/none"))))
    strange: dict[str, set[str]] = field(default_factory=dict)
    """What the stranger put on our providers: classes, traits and aggregates by UUID."""
    left: dict[str, set[str]] = field(default_factory=dict)
    """What was on our providers when the ledger was lost: who knows whose it is?"""
    blind: set[str] = field(default_factory=set)
    """Providers whose aggregates were written with an old microversion since the last audit."""
    gone: set[str] = field(default_factory=set)
    """Providers of ours that were deleted at some time."""
    doubtful: set[str] = field(default_factory=set)
    """Made anew since the view was saved that the agent has got back, perhaps with the same
    generation over other content: nothing but an audit tells, and what a stranger once put on
    them may be there again."""
    consumers: list[str] = field(default_factory=list)
    has_child: bool = False
    squats: bool = False
    acts: int = 0
    renamed: dict[str, str] = field(default_factory=dict)
    disturbed: bool = False
    """Whether there may be what only a verification can mend: strangers, refusals."""
    before: tuple[Any, ...] = ()
    """The circumstances of the last period."""
    lacking: bool = False
    """Whether Placement said that it lacks a name: that is left out until the next audit."""

    def __post_init__(self) -> None:
        self.rough = Rough(self.send)
        self.stranger = Stranger(self.send)
        self.nodes = self._nodes()

    # -- steps

    def wish(self, wish: dict[str, Wished], *, moves: bool = False) -> None:
        self.driver.wish, self.driver.moves = wish, moves

    def period(self, after: float) -> Any:
        self.now += after
        same, self.before = self.before == self._circumstances(), self._circumstances()
        self.rough.calls, writes, acts = 0, len(self.rough.writes), self.acts
        self.rough.deleted.clear()
        self.rough.seen.clear()
        (report,) = self.nodes.period(self.now)
        for uuid in self.rough.deleted:
            self._forget(uuid)
        self._expect_only_our_own_was_written(self.rough.writes[writes:])
        self._expect_no_storm(report, same, after)
        assert report.error is None or isinstance(report.error, errors.PlacementError), report
        pending = self.rough.meddling or self.rough.failures or self.acts > acts
        pending = pending or self.blind or self.doubtful
        if after > VERIFY and report.ok and not pending:
            self.disturbed = False
        self._expect_the_view_to_be_true()
        return report

    def restart(self, how: str) -> None:
        """With what was saved, with an older copy, without the ledger, or without anything."""
        if how != "saved":
            self._note_what_is_left()
        if how == "lost":
            shutil.rmtree(self.state)
            self.state.mkdir()
        elif how == "ledger lost":
            self._lose_ledger()
        elif how == "older":
            for old in self.state.glob("*.older"):
                old.replace(old.with_suffix(""))
            self.doubtful |= self.gone
            self.disturbed = self.disturbed or bool(self.doubtful)
        for saved in self.state.glob("root-*.journal"):
            shutil.copy(saved, f"{saved}.older")
        self.nodes = self._nodes()

    def _lose_ledger(self) -> None:
        for root in saved_roots(self.state):
            file = RootFile(root_path(self.state, root))
            assert file.replace({key: one for key, one in file.read().items() if key[0] == "view"})

    def _note_what_is_left(self) -> None:
        for uuid, (_, _, inventory, traits, aggregates) in self.contents().items():
            self.left.setdefault(uuid, set()).update(inventory, traits, aggregates)

    def fail(
        self,
        method: str,
        path: str,
        error: errors.PlacementError,
        after: bool,
        lasting: bool = False,
    ) -> None:
        self.rough.failures.append(Failure(method, re.compile(path), error, after, lasting))
        self.disturbed = self.disturbed or not isinstance(error, errors.Unreachable)
        self.lacking = self.lacking or isinstance(error, errors.UnknownNames)

    def meddle(self, method: str, path: str, kind: str, name: str, number: int) -> None:
        """Let the stranger act right before the next such call, on the same provider."""

        def act(named: str | None) -> None:
            self.act(kind, named or name, number)

        self.rough.meddling.append(Meddling(method, re.compile(path), act))

    # -- what a stranger does; what Placement refuses him does not happen

    def act(self, kind: str, name: str, number: int) -> None:
        self.disturbed, self.acts = True, self.acts + 1
        try:
            getattr(self, f"_{kind}")(uuid_of(name), name, number)
        except errors.PlacementError:
            pass

    def _add_trait(self, uuid: str, name: str, number: int) -> None:
        trait = STRANGERS_TRAITS[number % 2]
        self.stranger.add_trait(uuid, trait)
        self.strange.setdefault(uuid, set()).add(trait)

    def _take_our_trait(self, uuid: str, name: str, number: int) -> None:
        self.stranger.remove_trait(uuid, TRAITS[number % 3])

    def _add_aggregate(self, uuid: str, name: str, number: int) -> None:
        self.stranger.set_aggregates(uuid, {STRANGERS_AGGREGATE, *self.stranger.aggregates(uuid)})
        self.strange.setdefault(uuid, set()).add(STRANGERS_AGGREGATE)

    def _old_tool(self, uuid: str, name: str, number: int) -> None:
        """Takes our aggregates away, and Placement does not count it."""
        kept = self.stranger.aggregates(uuid) - {AGGREGATES[number % 2]}
        self.stranger.set_aggregates(uuid, kept, old_microversion=True)
        self.blind.add(uuid)

    def _set_inventory(self, uuid: str, name: str, number: int) -> None:
        """Of what the driver says, of something else, or of both."""
        wished = self.driver.wish.get(name)
        ours = CLASSES[number % 2] if wished is None else wished.resource_class
        theirs = STRANGERS_CLASSES[number % 2]
        classes = {0: [ours, theirs], 1: [theirs]}.get(number % 3, [ours])
        self.stranger.set_inventory(uuid, {one: {"total": 50 + number} for one in classes})
        added = {*classes} - {ours}
        self.strange[uuid] = self.strange.get(uuid, set()) - {*STRANGERS_CLASSES} | added
        if not any(tracker.ledger.begun for tracker in self.nodes.trackers.values()):
            self.left.setdefault(uuid, set()).update(added)  # taken over, as Nova does

    def _create_child(self, uuid: str, name: str, number: int) -> None:
        self.stranger.create_child(ROOT, "strangers", STRANGERS_CHILD)
        self.has_child = True
        self.stranger.set_inventory(STRANGERS_CHILD, {"FPGA": {"total": 1 + number}})
        self.stranger.add_trait(STRANGERS_CHILD, STRANGERS_TRAITS[0])

    def _delete_child(self, uuid: str, name: str, number: int) -> None:
        self.stranger.delete_provider(STRANGERS_CHILD)
        self.has_child = False

    def _delete_ours(self, uuid: str, name: str, number: int) -> None:
        self.stranger.delete_provider(uuid)
        self._forget(uuid)

    def _forget(self, uuid: str) -> None:
        self.strange.pop(uuid, None)
        self.left.pop(uuid, None)
        self.blind.discard(uuid)
        self.gone.add(uuid)

    def _rename_ours(self, uuid: str, name: str, number: int) -> None:
        self.stranger.rename(uuid, f"renamed{number}")
        self.renamed.setdefault(uuid, name)

    def _move_ours(self, uuid: str, name: str, number: int) -> None:
        """Below another one of ours, below the stranger's, or out of the tree."""
        parents = (*map(uuid_of, NAMES[:4]), STRANGERS_CHILD, None)
        if uuid != ROOT:
            self._note_what_is_left()  # out of sight it is seen to be gone
            self.stranger.move(uuid, parents[number])

    def _squat(self, uuid: str, name: str, number: int) -> None:
        self.stranger.create_provider(name, SQUATTER)
        self.squats = True

    def _leave(self, uuid: str, name: str, number: int) -> None:
        self.stranger.delete_provider(SQUATTER)
        self.squats = False

    def _allocate(self, uuid: str, name: str, number: int) -> None:
        inventory = self.stranger.inventory(uuid)
        if inventory:
            uses = {uuid: {sorted(inventory)[0]: 1}}
            self.consumers.append(self.stranger.put_allocation(uses))

    def _release(self, uuid: str, name: str, number: int) -> None:
        if self.consumers:
            self.stranger.delete_allocation(self.consumers.pop())

    # -- what has to hold

    def _circumstances(self) -> tuple[Any, ...]:
        """All that may be a reason to try again what did not work."""
        once = [one for one in self.rough.failures if not one.lasting]
        faults = (len(self.rough.failures), len(once), len(self.rough.meddling))
        refused = [sorted(one.root.refusals.by_subject) for one in self.nodes.trackers.values()]
        wish = self.driver.wish, self.driver.moves
        return (id(self.nodes), self.acts, *wish, *refused, *faults)

    def _expect_no_storm(self, report: Any, same: bool, after: float) -> None:
        """Nothing has changed since the period before: two tries at most, else some.

        The second finds that nothing has moved, and then it waits.  One try reads
        everything once, allocations too, and writes what has to be written.
        """
        providers = len(self.contents())
        reads = 2 + 3 * providers + providers + len(self.consumers)
        if same and after < VERIFY and not report.done:
            assert report.calls <= 2 * (reads + 2 * FAULTS), f"a storm: {self.rough.seen}"
        assert report.calls <= ATTEMPTS * (reads + 6 * len(NAMES)), f"a storm: {self.rough.seen}"

    def settle(self) -> None:
        """All faults are gone and the stranger has left what holds us up."""
        self.rough.failures.clear()
        self.rough.meddling.clear()
        if not (self.disturbed or self.lacking or self.consumers or self.squats):
            self.period(60)
            assert self.period(60).ok
            self._expect_the_wish()
        while self.consumers:
            self._release("", "", 0)
        self.act("leave", NODE, 0)
        self._names_back()
        self._places_back()
        if self.left:  # a class that is nobody's would be wanted elsewhere in each period
            self.driver.moves = False
        self.period(60)
        self.period(2 * AUDIT)
        report = self.period(2 * VERIFY)
        assert well(report), report.texts()
        quiet = self.period(2 * VERIFY)
        assert well(quiet) and not quiet.done and not quiet.plan
        assert quiet.calls <= 2
        assert self.period(1).calls == 0
        self._expect_the_wish()

    def _names_back(self) -> None:
        """An agent that lost its view can't know whose a provider with another name is."""
        for uuid, name in self.renamed.items():
            try:
                self.stranger.rename(uuid, name)
            except errors.PlacementError:
                pass  # it is gone, or made anew under its name

    def _places_back(self) -> None:
        """Nobody but an operator takes a provider out of a tree that is somebody else's."""
        for uuid in OURS:
            try:
                found = self.stranger.provider(uuid)
            except errors.PlacementError:
                continue
            if found["parent_provider_uuid"] and found["root_provider_uuid"] != ROOT:
                self.stranger.move(uuid, ROOT)

    def _expect_the_wish(self) -> None:
        found = self.contents()
        child = found.pop(STRANGERS_CHILD, None)
        assert (child is not None) == self.has_child, "the stranger's child"
        assert found.keys() == {uuid_of(name) for name in self.driver.wish}
        for name, wished in self.driver.wish.items():
            uuid = uuid_of(name)
            strange = self.strange.get(uuid, set())
            _, parent, inventory, traits, aggregates = found[uuid]
            record = inventory.get(wished.resource_class, {})
            assert parent == (wished.parent and uuid_of(wished.parent))
            assert (record["total"], record["reserved"]) == (wished.total, 0)
            there = {*inventory, *traits, *aggregates} - {OWNER, "COMPUTE_NODE"}
            ours = {wished.resource_class, *wished.traits, *wished.aggregates}
            doubt = self.left.get(uuid, set()) | (
                STRANGERS_THINGS if uuid in self.doubtful else set()
            )
            assert there - doubt == (ours | strange) - doubt
            assert ours <= there and strange - {*STRANGERS_CLASSES} <= there

    def _expect_the_view_to_be_true(self) -> None:
        """Where generations are equal, contents are."""
        (tracker,) = self.nodes.trackers.values()
        view: View = tracker.view
        if not view.certain:
            return
        found = self.contents()
        for uuid, provider in view.snapshot.providers.items():
            generation, _, inventory, traits, aggregates = found.get(uuid, (None,) * 5)
            if generation is None or generation != view.generations.get(uuid):
                continue
            if uuid in self.doubtful:
                continue
            known = {key: record.as_dict() for key, record in provider.inventory.items()}
            assert known == inventory
            assert provider.traits == traits
            assert uuid in self.blind or provider.aggregates == aggregates

    def _expect_only_our_own_was_written(self, writes: list[tuple[str, str]]) -> None:
        for method, path in writes:
            match = re.match(r"/resource_providers/([^/]+)", path)
            assert match is None or match[1] in OURS, f"{method} {path} is not ours"
            if method == "DELETE":
                assert OURS[match[1]] not in self.driver.wish, "deleted what is wished for"

    def contents(self) -> dict[str, tuple[Any, ...]]:
        """``{uuid: (generation, parent, inventory, traits, aggregates)}``."""
        listed = self.send("GET", f"/resource_providers?in_tree={ROOT}")["resource_providers"]
        return {
            item["uuid"]: (
                item["generation"],
                item["parent_provider_uuid"],
                self.stranger.inventory(item["uuid"]),
                self.stranger.traits(item["uuid"]),
                self.stranger.aggregates(item["uuid"]),
            )
            for item in listed
        }

    def _nodes(self) -> Nodes:
        agent = Agent(
            self.rough,
            named={"wishing": self.driver},
            state=self.state,
            bulk=BulkWrites(self.chunk),
            verify_every=VERIFY,
            audit_every=AUDIT,
            at_once=self.at_once,
            reshape_when_running=True,
        )
        return agent.nodes
