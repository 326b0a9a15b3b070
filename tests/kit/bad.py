"""A driver for each way to break a rule; each one is the good driver with one thing wrong."""

from __future__ import annotations

import itertools
import sqlite3
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from drivers.api import DriverNotReady, ReshapeNeeded
from tests.kit.good import Backend, GoodDriver, is_card


@dataclass(frozen=True)
class Bad:
    """``words`` have to be in the failure of ``rule``."""

    rule: str
    driver: type[GoodDriver]
    words: tuple[str, ...]
    nodes: tuple[str, ...] = ("host1",)
    fixtures: tuple[str, ...] = field(default=())

    def __str__(self) -> str:
        return f"{self.rule}-{self.driver.__name__}"


BAD: list[Bad] = []


def breaks(rule: str, *words: str, **more: Any):
    def note(driver: type[GoodDriver]) -> type[GoodDriver]:
        BAD.append(Bad(rule, driver, words, **more))
        return driver

    return note


class Also(GoodDriver):
    """The good driver, which does one thing more after each report."""

    def report(self, tree, node, cards, allocations):
        super().report(tree, node, cards, allocations)
        self.also(tree, node, cards)

    def also(self, tree, node, cards):
        raise NotImplementedError


@breaks("answers", "update_provider_tree for node host1 raised KeyError", "bad.py", "in cards")
class Crashes(GoodDriver):
    def cards(self, nodename):
        return {}["cards"]


@breaks("answers", "nothing was reported for any node (host1)")
class SaysNothing(GoodDriver):
    def report(self, tree, node, cards, allocations):
        pass


@breaks("answers", "get_available_nodes() returned no node")
class HasNoNode(GoodDriver):
    def get_available_nodes(self):
        return []


@breaks("closes", "without init_host cleanup_host raised AttributeError")
class ClosesWhatItNeverOpened(GoodDriver):
    def init_host(self, host):
        self.opened = sqlite3.connect(":memory:", check_same_thread=False)

    def cleanup_host(self, host):
        self.opened.close()


@breaks("closes", "cleanup_host raised RuntimeError: closed already")
class FailsToClose(GoodDriver):
    def init_host(self, host):
        self.connection = object()

    def cleanup_host(self, host):
        if self.connection:
            raise RuntimeError("closed already")


@breaks("node-names", "first host1-0; asked again: host1-1")
class CountsItsNodes(GoodDriver):
    counter = None

    def get_available_nodes(self):
        self.counter = self.counter or itertools.count()
        return [f"host1-{next(self.counter)}"]


@breaks("node-names", "get_available_nodes() returned 'host1': a list of names is needed")
class NamesAreAString(GoodDriver):
    def get_available_nodes(self):
        return "host1"


@breaks("node-names", "at most 200 characters")
class LongNodeName(GoodDriver):
    def get_available_nodes(self):
        return ["h" * 201]


@breaks("node-names", "get_nodenames_by_uuid() names host2")
class TellsOfAnother(GoodDriver):
    def get_nodenames_by_uuid(self):
        return {"6a2d1c34-58b1-4a6d-9a5c-0f6a4d8f1e77": "host2"}


@breaks("root-stays", "the root provider host1 (", ") was removed")
class RemovesTheRoot(GoodDriver):
    def report(self, tree, node, cards, allocations):
        tree.remove(node)


@breaks("root-stays", "was renamed to the-host")
class RenamesTheRoot(GoodDriver):
    def report(self, tree, node, cards, allocations):
        tree.rename(node, "the-host")


@breaks("root-stays", "provider host1_cards (", "is a second root beside host1")
class MakesASecondRoot(Also):
    def also(self, tree, node, cards):
        if not tree.exists("host1_cards"):
            tree.new_root("host1_cards", "6a2d1c34-58b1-4a6d-9a5c-0f6a4d8f1e55")


@breaks("valid", "provider host1_0000:84:00.0 (", "inventory of VGPU: total is 0")
class TotalOfNothing(Also):
    def also(self, tree, node, cards):
        tree.update_inventory(f"{node}_{cards[0]}", {"VGPU": {"total": 0}})


@breaks("valid", "inventory of VCPU: reserved is 9")
class ReservesTooMuch(Also):
    def also(self, tree, node, cards):
        tree.update_inventory(node, {"VCPU": {"total": 8, "reserved": 9}})


@breaks("valid", "trait HW_CPU_X86_AVX9000 is unknown to this Placement", "CUSTOM_")
class UnknownTrait(Also):
    def also(self, tree, node, cards):
        tree.add_traits(node, "HW_CPU_X86_AVX9000")


@breaks("valid", "trait 'custom-gold' is not a valid name")
class MisspeltTrait(Also):
    def also(self, tree, node, cards):
        tree.add_traits(node, "custom-gold")


@breaks("valid", "resource class GPUS is unknown to this Placement")
class UnknownClass(Also):
    def also(self, tree, node, cards):
        tree.update_inventory(node, {"GPUS": {"total": 8}})


@breaks("valid", "host1host1", "a provider's name has at most 200 characters")
class LongProviderName(Also):
    def also(self, tree, node, cards):
        if not tree.exists(node * 52):
            tree.new_child(node * 52, node)


@breaks("valid", "raised ValueError", "'first' is not a UUID", "in also")
class NoUuid(Also):
    def also(self, tree, node, cards):
        tree.new_child(f"{node}_first", node, uuid="first")


@breaks("own-names", "provider 0000:84:00.0 (", "its name could also be that of the same device")
class PlainAddresses(GoodDriver):
    def report_card(self, tree, node, name):
        super().report_card(tree, node, name.partition("_")[2])


@breaks(
    "own-names", "node host2", "node host1 has provider rack-host1_disk", nodes=("host1", "host2")
)
class OneNameForAllNodes(Also):
    def also(self, tree, node, cards):
        if not tree.exists("rack-host1_disk"):
            tree.new_child("rack-host1_disk", node)


@breaks("second-period", "set inventory of VCPU on host1: reserved 2 → 3")
class ReportsWhatIsFree(Also):
    calls = 0

    def also(self, tree, node, cards):
        self.calls += 1
        tree.update_inventory(node, {"VCPU": {"total": 16, "reserved": 1 + self.calls}})


@breaks(
    "second-period",
    "in the next period, with nothing changed, update_provider_tree",
    "already exists",
)
class AddsItsCardsAgain(GoodDriver):
    def report_card(self, tree, node, name):
        tree.new_child(name, node)
        super().report_card(tree, node, name)


@breaks("agree", "host1_0000:84:00.0", "delete provider", "create provider", "uuid5, never uuid4")
class RandomUuids(GoodDriver):
    def report_card(self, tree, node, name):
        if not tree.exists(name):
            tree.new_child(name, node, uuid=str(uuid.uuid4()))
        super().report_card(tree, node, name)


@breaks(
    "restart",
    "a fresh driver, called with the tree that another one has reported, update_provider_tree",
    "ValueError",
)
class RemembersWhatItAdded(GoodDriver):
    added: bool = False

    def report_card(self, tree, node, name):
        if not self.added:
            tree.new_child(name, node)
        self.added = name.endswith("85:00.0") or self.added
        super().report_card(tree, node, name)


@breaks("restart", "remove trait CUSTOM_WARMED_UP on ")
class NeedsToWarmUp(Also):
    calls = 0

    def also(self, tree, node, cards):
        self.calls += 1
        (tree.add_traits if self.calls > 1 else tree.remove_traits)(node, "CUSTOM_WARMED_UP")

    def get_available_nodes(self):
        self.calls = self.calls or len(self.state_of_last_run())
        return super().get_available_nodes()

    def state_of_last_run(self):
        """Only the first driver of this state path thinks that it is warm."""
        file = self.context.state_path / "warm"
        if file.exists():
            return ""
        file.write_text("yes")
        return "x"


@breaks("any-order", "the reported tree, then the same tree in another order", "CUSTOM_FIRST_CARD")
class MarksTheFirstInTheTree(Also):
    def also(self, tree, node, cards):
        first, *rest = tree.get_provider_uuids(node)[1:]
        tree.add_traits(first, "CUSTOM_FIRST_CARD")
        for other in rest:
            tree.remove_traits(other, "CUSTOM_FIRST_CARD")


@breaks("any-thread", "in another thread update_provider_tree", "ProgrammingError", "same thread")
class BoundToAThread(GoodDriver):
    database = None

    def cards(self, nodename):
        self.database = self.database or sqlite3.connect(":memory:")
        self.database.execute("SELECT 1")
        return super().cards(nodename)


@breaks("thread-safe", "called for several nodes at once", nodes=("host1", "host2"))
class SharesItsState(GoodDriver):
    thread_safe = True
    calls = 0

    def report(self, tree, node, cards, allocations):
        self.node = node
        self.calls += 1
        self.wait_for_another(node, time.monotonic() + (0 if self.calls <= 2 else 2))
        super().report(tree, self.node, cards, allocations)

    def wait_for_another(self, node, until):
        while self.node == node and time.monotonic() < until:
            time.sleep(0.005)


@breaks(
    "foreign-providers",
    "the driver has removed or changed",
    "a foreign provider host1_driver_kit_foreign (",
)
class RemovesAllItDoesNotReport(GoodDriver):
    def remove_gone(self, tree, node, cards):
        wanted = {node, *(f"{node}_{address}" for address in cards)}
        for child in tree.get_provider_uuids(node):
            if tree.exists(child) and tree.data(child).name not in wanted:
                tree.remove(child)


@breaks("foreign-providers", "a foreign provider host1_driver_kit_shared (")
class RemovesSharedOnes(GoodDriver):
    def remove_gone(self, tree, node, cards):
        super().remove_gone(tree, node, cards)
        if tree.exists(f"{node}_driver_kit_shared"):
            tree.remove(f"{node}_driver_kit_shared")


@breaks(
    "foreign-traits",
    "trait COMPUTE_NODE of provider host1 (",
    "CUSTOM_DRIVER_KIT_FOREIGN",
    "add_traits",
)
class SetsAllTraits(Also):
    def also(self, tree, node, cards):
        tree.update_traits(node, ["HW_CPU_X86_AVX2", "CUSTOM_GOOD"])


@breaks("foreign-aggregates", "aggregate 7d0f5f52-", "of provider host1 (", "add_aggregates")
class SetsAllAggregates(Also):
    def also(self, tree, node, cards):
        tree.update_aggregates(node, [])


@breaks("drift", "after all inventory was removed", "remove inventory of VCPU on host1")
class SaysOnlyWhatIsNew(GoodDriver):
    said = None

    def report(self, tree, node, cards, allocations):
        if self.said != cards:
            super().report(tree, node, cards, allocations)
        self.said = cards


@breaks("tree-not-kept", "the tree still exists", "in self.tree")
class KeepsTheTree(GoodDriver):
    def report(self, tree, node, cards, allocations):
        super().report(tree, node, cards, allocations)
        if allocations is None:
            self.tree = tree


@breaks("tree-not-kept", "the dict of allocations still exists", "in self.seen")
class KeepsTheAllocations(GoodDriver):
    def report(self, tree, node, cards, allocations):
        super().report(tree, node, cards, allocations)
        self.seen = [allocations]


@breaks("documented-errors", "raised KeyError: 'driver-kit-nowhere'", "DriverNotReady")
class KnowsOnlyItsNodes(GoodDriver):
    def cards(self, nodename):
        return {node: self.backend.read() for node in self.backend.nodes}[nodename]


@breaks(
    "reshape-needed", "Placement has nothing of this node yet", "raised ReshapeNeeded: first start"
)
class ReshapesAtFirst(GoodDriver):
    started = False

    def report(self, tree, node, cards, allocations):
        first, self.started = not self.started, True
        if first and allocations is None:
            raise ReshapeNeeded("first start")
        super().report(tree, node, cards, allocations)


@breaks(
    "reshape-needed",
    "the allocations were given, and nothing has to move",
    "ReshapeNeeded: once more",
)
class ReshapesThoughItCould(GoodDriver):
    def report(self, tree, node, cards, allocations):
        if allocations is not None:
            raise ReshapeNeeded("once more")
        super().report(tree, node, cards, allocations)


@breaks(
    "reshape-needed",
    "the reshape was done, and update_provider_tree",
    "raised ReshapeNeeded: VGPU of host1",
    fixtures=("reshape_case",),
)
class LeavesOneBehind(GoodDriver):
    def move(self, tree, node, cards, allocations):
        super().move(tree, node, cards, allocations)
        tree.update_inventory(node, {"VCPU": {"total": 16, "reserved": 2}, "VGPU": {"total": 1}})


@breaks(
    "reshape-asked",
    "ReshapeNeeded was not raised",
    "remove inventory of VGPU on host1",
    fixtures=("reshape_case",),
)
class MovesWithoutAsking(GoodDriver):
    def report(self, tree, node, cards, allocations):
        super().report(tree, node, cards, {} if allocations is None else allocations)


@breaks(
    "reshape-totals",
    "consumer 5cb3a1ba-",
    "VGPU 1 taken away, nothing added",
    fixtures=("reshape_case",),
)
class LosesAnAmount(GoodDriver):
    def move(self, tree, node, cards, allocations):
        super().move(tree, node, cards, allocations)
        for consumer in allocations.values():
            for held in consumer["allocations"].values():
                if "VGPU" in held["resources"]:
                    held["resources"]["VGPU"] -= 1


@breaks("reshape-totals", "the allocations of consumer", "were lost", fixtures=("reshape_case",))
class LosesAConsumer(GoodDriver):
    def move(self, tree, node, cards, allocations):
        super().move(tree, node, cards, allocations)
        allocations.popitem()


@breaks(
    "reshape-totals",
    "the reshape is refused",
    "capacity",
    "host1_0000:84:00.0 (",
    fixtures=("reshape_case",),
)
class PutsAllOnOneCard(GoodDriver):
    def move(self, tree, node, cards, allocations):
        root, card = tree.data(node).uuid, tree.data(f"{node}_{cards[0]}").uuid
        for consumer in allocations.values():
            held = consumer["allocations"]
            amount = held.get(root, {}).get("resources", {}).pop("VGPU", 0)
            if amount:
                held[card] = {"resources": {"VGPU": amount}}


@breaks("foreign-allocations", "were changed, although nothing has to move", "VCPU")
class RewritesAll(GoodDriver):
    def report(self, tree, node, cards, allocations):
        super().report(tree, node, cards, allocations)
        for consumer in (allocations or {}).values():
            for held in consumer["allocations"].values():
                held["resources"] = dict.fromkeys(held["resources"], 2)


@breaks(
    "foreign-allocations",
    "which is foreign",
    "CUSTOM_DRIVER_KIT_FOREIGN",
    "after:  nothing",
    fixtures=("reshape_case",),
)
class TakesAForeignOneToo(GoodDriver):
    def move(self, tree, node, cards, allocations):
        super().move(tree, node, cards, allocations)
        for consumer in list(allocations):
            if "VCPU" not in str(allocations[consumer]):
                del allocations[consumer]


@breaks(
    "lost-backend",
    "the exception is not DriverNotReady",
    "ConnectionError: the backend is down",
    fixtures=("lose_backend",),
)
class LetsErrorsOut(GoodDriver):
    def cards(self, nodename):
        return self.backend.read()


@breaks(
    "lost-backend",
    "the tree was edited, then DriverNotReady was raised",
    "host1_0000:84:00.0",
    fixtures=("lose_backend",),
)
class EditsBeforeItReads(GoodDriver):
    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        self.remove_gone(provider_tree, nodename, [])
        super().update_provider_tree(provider_tree, nodename, allocations)


@breaks(
    "lost-backend",
    "the tree was edited, and DriverNotReady was not raised",
    "delete provider",
    fixtures=("lose_backend",),
)
class TakesLostForEmpty(GoodDriver):
    def cards(self, nodename):
        try:
            return super().cards(nodename)
        except DriverNotReady:
            return []


@breaks("lost-backend", "returned as in a good period", "degraded()", fixtures=("lose_backend",))
class ReportsFromMemory(GoodDriver):
    last: list[str] = []

    def cards(self, nodename):
        try:
            self.last = super().cards(nodename)
        except DriverNotReady:
            pass
        return self.last


@breaks(
    "lost-backend",
    "update_provider_tree(host1) has not returned within 3 s",
    fixtures=("lose_backend",),
)
class Hangs(GoodDriver):
    def cards(self, nodename):
        while not self.backend.up:
            time.sleep(0.05)
        return super().cards(nodename)


@breaks(
    "starts-without-backend",
    "with the backend down init_host raised ConnectionError",
    fixtures=("lose_backend",),
)
class ConnectsAtOnce(GoodDriver):
    def init_host(self, host):
        self.backend.check()


@breaks(
    "starts-without-backend",
    "with the backend down make_driver raised ConnectionError",
    fixtures=("lose_backend",),
)
class ConnectsInTheConstructor(GoodDriver):
    def __init__(self, context, backend):
        super().__init__(context, backend)
        backend.check()


@breaks(
    "starts-without-backend",
    "after the backend was repaired",
    "DriverNotReady: lost for good",
    fixtures=("lose_backend",),
)
class NeverTriesAgain(GoodDriver):
    lost = False

    def get_available_nodes(self):
        self.lost = self.lost or not self.backend.up
        if self.lost:
            raise DriverNotReady("lost for good")
        return super().get_available_nodes()


@breaks("status-trait", "COMPUTE_STATUS_DISABLED was set on host1")
class DisablesItself(Also):
    def also(self, tree, node, cards):
        tree.add_traits(node, "COMPUTE_STATUS_DISABLED")


@breaks("foreign-traits", "trait COMPUTE_STATUS_DISABLED of provider host1")
class EnablesItself(Also):
    def also(self, tree, node, cards):
        tree.remove_traits(node, "COMPUTE_STATUS_DISABLED")


@breaks("lost-device", "has everything that it had before", fixtures=("lose_device",))
class KeepsWhatIsGone(GoodDriver):
    def remove_gone(self, tree, node, cards):
        pass


@breaks(
    "lost-device",
    "the running driver and a fresh one report different trees",
    "host1_0000:84:00.0",
    fixtures=("lose_device",),
)
class RemovesOnlyWhatItRemembers(GoodDriver):
    last: frozenset[str] = frozenset()

    def remove_gone(self, tree, node, cards):
        for gone in self.last - set(cards):
            if tree.exists(f"{node}_{gone}"):
                tree.remove(f"{node}_{gone}")
        self.last = frozenset(cards)


@breaks(
    "lost-device",
    "with a device gone update_provider_tree",
    "no such provider",
    fixtures=("lose_device",),
)
class LooksAtWhatWentAlong(GoodDriver):
    def remove_gone(self, tree, node, cards):
        wanted = {f"{node}_{address}" for address in cards}
        for child in tree.get_provider_uuids(node):
            name = tree.data(child).name
            if is_card(name, node) and name not in wanted:
                tree.remove(child)


@breaks(
    "time", "of processor time for 1000 devices", "times as long", fixtures=("make_big_driver",)
)
class LooksAtAllForEach(GoodDriver):
    def report_card(self, tree, node, name):
        super().report_card(tree, node, name)
        for child in tree.get_provider_uuids(node):
            tree.exists(child) and tree.has_traits(child, ["CUSTOM_GOOD_CARD"])


@breaks("memory", "MiB for a period of 1000 devices", "more than 62", fixtures=("make_big_driver",))
class KeepsDocuments(GoodDriver):
    def report(self, tree, node, cards, allocations):
        self.documents = {card: bytearray(100_000) for card in cards}
        super().report(tree, node, cards, allocations)


@breaks("steady-memory", "12 quiet periods left", "bad.py")
class KeepsAHistory(Also):
    def __init__(self, context, backend):
        super().__init__(context, backend)
        self.history: list[Any] = []

    def also(self, tree, node, cards):
        self.history.append([tree.data(child) for child in tree.get_provider_uuids(node)])


def backend_of(bad: Bad) -> Backend:
    return Backend(nodes=list(bad.nodes))
