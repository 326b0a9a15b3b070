"""A driver for each way to break a rule; each one is the good driver with one thing wrong."""

import itertools
import sqlite3
import threading
import time
import uuid
from dataclasses import dataclass
from typing import Any

from drivers.api import DriverNotReady, ReshapeNeeded
from tests.kit.good import GoodDriver, is_card


@dataclass(frozen=True)
class Bad:
    """``words`` have to be in the failure of the contract's test."""

    test: str
    driver: type[GoodDriver]
    words: tuple[str, ...]
    nodes: tuple[str, ...] = ("host1",)


BAD: list[Bad] = []


def breaks(test: str, *words: str, **more: Any):
    def note(driver: type[GoodDriver]) -> type[GoodDriver]:
        BAD.append(Bad(f"test_{test}", driver, words, **more))
        return driver

    return note


class Also(GoodDriver):
    """The good driver, which does one thing more after each report."""

    def report(self, tree, node, cards, allocations):
        super().report(tree, node, cards, allocations)
        self.also(tree, node, cards)

    def also(self, tree, node, cards):
        raise NotImplementedError


@breaks("nodes_have_resources_that_placement_takes", "DriverFault: KeyError: 'cards'", "bad.py")
class Crashes(GoodDriver):
    def cards(self, nodename):
        return {}["cards"]


@breaks("nodes_have_resources_that_placement_takes", "nothing was reported")
class SaysNothing(GoodDriver):
    def report(self, tree, node, cards, allocations):
        pass


@breaks("nodes_have_resources_that_placement_takes", "get_available_nodes() returned no node")
class HasNoNode(GoodDriver):
    def get_available_nodes(self):
        return []


@breaks("a_driver_can_be_closed_at_any_time", "AttributeError", "opened")
class ClosesWhatItNeverOpened(GoodDriver):
    def init_host(self, host):
        self.opened = sqlite3.connect(":memory:", check_same_thread=False)

    def cleanup_host(self, host):
        self.opened.close()


@breaks("a_driver_can_be_closed_at_any_time", "cleanup_host has not returned within 3 s")
class HangsAtItsEnd(GoodDriver):
    def cleanup_host(self, host):
        time.sleep(4)


@breaks("nodes_keep_their_names_and_uuids", "['host1-0'], {}), then (['host1-1']")
class CountsItsNodes(GoodDriver):
    counter = None

    def get_available_nodes(self):
        self.counter = self.counter or itertools.count()
        return [f"host1-{next(self.counter)}"]


@breaks("nodes_keep_their_names_and_uuids", "get_nodenames_by_uuid() names ['host2']")
class TellsOfAnother(GoodDriver):
    def get_nodenames_by_uuid(self):
        return {"6a2d1c34-58b1-4a6d-9a5c-0f6a4d8f1e77": "host2"}


@breaks("the_root_is_left_to_the_agent", "the root provider host1 was removed")
class RemovesTheRoot(GoodDriver):
    def report(self, tree, node, cards, allocations):
        tree.remove(node)


@breaks("the_root_is_left_to_the_agent", "['host1_cards'] are roots beside host1")
class MakesASecondRoot(Also):
    def also(self, tree, node, cards):
        if not tree.exists("host1_cards"):
            tree.new_root("host1_cards", "6a2d1c34-58b1-4a6d-9a5c-0f6a4d8f1e55")


@breaks(
    "nodes_have_resources_that_placement_takes",
    "node host1: provider host1_0000:84:00.0 (",  # on one line: driver check shows the first
    "inventory of VGPU: total is 0",
)
class TotalOfNothing(Also):
    def also(self, tree, node, cards):
        tree.update_inventory(f"{node}_{cards[0]}", {"VGPU": {"total": 0}})


@breaks(
    "nodes_have_resources_that_placement_takes",
    "trait HW_CPU_X86_AVX9000 is unknown to this Placement",
)
class UnknownTrait(Also):
    def also(self, tree, node, cards):
        tree.add_traits(node, "HW_CPU_X86_AVX9000")


@breaks(
    "names_of_children_are_unique_in_the_cloud",
    "provider 0000:84:00.0: another host may have such a device, too",
)
class PlainAddresses(GoodDriver):
    def report_card(self, tree, node, name):
        super().report_card(tree, node, name.partition("_")[2])


@breaks(
    "names_of_children_are_unique_in_the_cloud",
    "provider rack-host1_disk: another node has one, too",
    nodes=("host1", "host2"),
)
class OneNameForAllNodes(Also):
    def also(self, tree, node, cards):
        if not tree.exists("rack-host1_disk"):
            tree.new_child("rack-host1_disk", node)


@breaks("names_of_children_are_unique_in_the_cloud", "host1_licences has the UUID", "on each host")
class OneUuidForAllHosts(Also):
    def also(self, tree, node, cards):
        name = f"{node}_licences"
        if not tree.exists(name):
            tree.new_child(name, node, "6b3f8c1e-2f55-4a7b-9a39-0c6a5d1be001")


@breaks("names_of_children_are_unique_in_the_cloud", "host1_0000:84:00.0 has the UUID")
class UuidsOfAddresses(GoodDriver):
    def report_card(self, tree, node, name):
        if not tree.exists(name):
            tree.new_child(name, node, str(uuid.uuid5(uuid.NAMESPACE_DNS, name.partition("_")[2])))
        super().report_card(tree, node, name)


@breaks(
    "nothing_is_written_while_nothing_happens",
    "provider host1 (",
    "inventory of VCPU: total 16, reserved 2 -> total 16, reserved 3",
)
class ReportsWhatIsFree(Also):
    calls = 0

    def also(self, tree, node, cards):
        self.calls += 1
        tree.update_inventory(node, {"VCPU": {"total": 16, "reserved": 1 + self.calls}})


@breaks(
    "nothing_is_written_while_nothing_happens",
    "host1_0000:84:00.0",
    "two drivers, on an empty Placement",
)
class RandomUuids(GoodDriver):
    def report_card(self, tree, node, name):
        if not tree.exists(name):
            tree.new_child(name, node, uuid=str(uuid.uuid4()))
        super().report_card(tree, node, name)


@breaks("nothing_is_written_while_nothing_happens", "already exists: host1_0000:84:00.0")
class RemembersWhatItAdded(GoodDriver):
    added: bool = False

    def report_card(self, tree, node, name):
        if not self.added:
            tree.new_child(name, node)
        self.added = name.endswith("85:00.0") or self.added
        super().report_card(tree, node, name)


@breaks("order_and_thread_make_no_difference", "in another order", "CUSTOM_FIRST_CARD")
class MarksTheFirstInTheTree(Also):
    def also(self, tree, node, cards):
        first, *rest = tree.get_provider_uuids(node)[1:]
        tree.add_traits(first, "CUSTOM_FIRST_CARD")
        for other in rest:
            tree.remove_traits(other, "CUSTOM_FIRST_CARD")


@breaks("order_and_thread_make_no_difference", "ProgrammingError", "same thread")
class BoundToAThread(GoodDriver):
    database = None

    def cards(self, nodename):
        self.database = self.database or sqlite3.connect(":memory:")
        self.database.execute("SELECT 1")
        return super().cards(nodename)


@breaks(
    "order_and_thread_make_no_difference", "update_provider_tree(host1) has not returned within 3 s"
)
class HangsInAnotherThread(GoodDriver):
    thread = 0

    def cards(self, nodename):
        self.thread = self.thread or threading.get_ident()
        if self.thread != threading.get_ident():
            time.sleep(4)
        return super().cards(nodename)


@breaks(
    "a_thread_safe_driver_reports_nodes_at_once",
    "no such provider: host",
    nodes=("host1", "host2"),
)
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
    "data_of_other_services_stays",
    "the driver has removed or changed what others have set",
    "provider host1_of_another_service (",
)
class RemovesAllItDoesNotReport(GoodDriver):
    def remove_gone(self, tree, node, cards):
        wanted = {node, *(f"{node}_{address}" for address in cards)}
        for child in tree.get_provider_uuids(node):
            if tree.exists(child) and tree.data(child).name not in wanted:
                tree.remove(child)


@breaks("data_of_other_services_stays", "provider host1_empty_of_another_service (")
class RemovesWhatIsEmpty(GoodDriver):
    def remove_gone(self, tree, node, cards):
        super().remove_gone(tree, node, cards)
        for child in reversed(tree.get_provider_uuids(node)[1:]):
            if not tree.data(child).inventory and len(tree.get_provider_uuids(child)) == 1:
                tree.remove(child)


@breaks("data_of_other_services_stays", "provider host1_share_of_another_service (")
class RemovesSharedOnes(GoodDriver):
    def remove_gone(self, tree, node, cards):
        super().remove_gone(tree, node, cards)
        if tree.exists(f"{node}_share_of_another_service"):
            tree.remove(f"{node}_share_of_another_service")


@breaks(
    "data_of_other_services_stays",
    "provider host1 (",
    "trait CUSTOM_OF_ANOTHER_SERVICE: set -> nothing",
)
class SetsAllTraits(Also):
    def also(self, tree, node, cards):
        tree.update_traits(node, ["HW_CPU_X86_AVX2", "CUSTOM_GOOD"])


@breaks("data_of_other_services_stays", "aggregate 7d0f5f52-", "set -> nothing")
class SetsAllAggregates(Also):
    def also(self, tree, node, cards):
        tree.update_aggregates(node, [])


@breaks(
    "lost_data_is_reported_again",
    "after another service has damaged the tree",
    "inventory of VCPU: total 16, reserved 2 -> nothing",
)
class SaysOnlyWhatIsNew(GoodDriver):
    said = None

    def report(self, tree, node, cards, allocations):
        if self.said != cards:
            super().report(tree, node, cards, allocations)
        self.said = cards


@breaks("tree_and_allocations_are_not_kept", "the driver keeps ProviderTree")
class KeepsTheTree(GoodDriver):
    def report(self, tree, node, cards, allocations):
        super().report(tree, node, cards, allocations)
        if allocations is None:
            self.tree = tree


@breaks("tree_and_allocations_are_not_kept", "the driver keeps _Allocations")
class KeepsTheAllocations(GoodDriver):
    def report(self, tree, node, cards, allocations):
        super().report(tree, node, cards, allocations)
        self.seen = [allocations]


@breaks("errors_are_the_documented_ones", "KeyError: 'a-node-that-does-not-exist'")
class KnowsOnlyItsNodes(GoodDriver):
    def cards(self, nodename):
        return {node: self.backend.read() for node in self.backend.nodes}[nodename]


@breaks("optional_methods_return_what_is_documented", "degraded() failed: ", "degraded() takes 1")
class DegradedWithoutANode(GoodDriver):
    def degraded(self):
        return {}


@breaks(
    "optional_methods_return_what_is_documented", "it has to return {part: reason}, not ['fan']"
)
class DegradedInAList(GoodDriver):
    def degraded(self, node):
        return ["fan"]


@breaks("optional_methods_return_what_is_documented", "guest: {'uuid': 'a'} is not a UUID")
class GuestsAsDocuments(GoodDriver):
    def guests(self, node):
        return [{"uuid": "a"}]


@breaks("optional_methods_return_what_is_documented", "DriverFault: KeyError: 'disks'", "bad.py")
class TookFails(GoodDriver):
    def took(self):
        return {}["disks"]


@breaks(
    "optional_methods_return_what_is_documented", "took() returned {'disks': 'long'}, not {sour"
)
class TookLong(GoodDriver):
    def took(self):
        return {"disks": "long"}


@breaks("optional_methods_return_what_is_documented", "watch() takes 1 positional argument but 2")
class WatchesForNobody(GoodDriver):
    def watch(self):
        pass


@breaks("optional_methods_return_what_is_documented", "return {uuid: nodename}, not ['host1']")
class UuidsInAList(GoodDriver):
    def get_nodenames_by_uuid(self):
        return ["host1"]


@breaks("nothing_moves_while_nothing_has_to", "ReshapeNeeded: first start")
class ReshapesAtFirst(GoodDriver):
    started = False

    def report(self, tree, node, cards, allocations):
        first, self.started = not self.started, True
        if first and allocations is None:
            raise ReshapeNeeded("first start")
        super().report(tree, node, cards, allocations)


@breaks("nothing_moves_while_nothing_has_to", "ReshapeNeeded: once more")
class ReshapesThoughItCould(GoodDriver):
    def report(self, tree, node, cards, allocations):
        if allocations is not None:
            raise ReshapeNeeded("once more")
        super().report(tree, node, cards, allocations)


@breaks("a_reshape_keeps_what_consumers_have", "ReshapeNeeded: VGPU of host1")
class LeavesOneBehind(GoodDriver):
    def move(self, tree, node, cards, allocations):
        super().move(tree, node, cards, allocations)
        tree.update_inventory(node, {"VCPU": {"total": 16, "reserved": 2}, "VGPU": {"total": 1}})


@breaks("a_reshape_keeps_what_consumers_have", "DID NOT RAISE ReshapeNeeded")
class MovesWithoutAsking(GoodDriver):
    def report(self, tree, node, cards, allocations):
        super().report(tree, node, cards, {} if allocations is None else allocations)


@breaks(
    "a_reshape_keeps_what_consumers_have", "consumer 5cb3a1ba-", "VGPU 1 taken away, nothing added"
)
class LosesAnAmount(GoodDriver):
    def move(self, tree, node, cards, allocations):
        super().move(tree, node, cards, allocations)
        for consumer in allocations.values():
            for held in consumer["allocations"].values():
                if "VGPU" in held["resources"]:
                    held["resources"]["VGPU"] -= 1


@breaks("a_reshape_keeps_what_consumers_have", "capacity")
class PutsAllOnOneCard(GoodDriver):
    def move(self, tree, node, cards, allocations):
        root, card = tree.data(node).uuid, tree.data(f"{node}_{cards[0]}").uuid
        for consumer in allocations.values():
            held = consumer["allocations"]
            amount = held.get(root, {}).get("resources", {}).pop("VGPU", 0)
            if amount:
                held[card] = {"resources": {"VGPU": amount}}


@breaks("nothing_moves_while_nothing_has_to", "nothing has to move", "VCPU")
class RewritesAll(GoodDriver):
    def report(self, tree, node, cards, allocations):
        super().report(tree, node, cards, allocations)
        for consumer in (allocations or {}).values():
            for held in consumer["allocations"].values():
                held["resources"] = dict.fromkeys(held["resources"], 2)


@breaks("a_reshape_keeps_what_consumers_have", "allocations of consumer", "were lost")
class TakesAForeignOneToo(GoodDriver):
    def move(self, tree, node, cards, allocations):
        super().move(tree, node, cards, allocations)
        for consumer in list(allocations):
            if "VCPU" not in str(allocations[consumer]):
                del allocations[consumer]


@breaks("a_lost_backend_is_not_ready", "ConnectionError: the backend is down")
class LetsErrorsOut(GoodDriver):
    def cards(self, nodename):
        return self.backend.read()


@breaks(
    "a_lost_backend_is_not_ready", "with the backend lost the tree was edited", "host1_0000:84:00.0"
)
class EditsBeforeItReads(GoodDriver):
    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        self.remove_gone(provider_tree, nodename, [])
        super().update_provider_tree(provider_tree, nodename, allocations)


@breaks("a_lost_backend_is_not_ready", "degraded()")
class ReportsFromMemory(GoodDriver):
    last: list[str] = []

    def cards(self, nodename):
        try:
            self.last = super().cards(nodename)
        except DriverNotReady:
            pass
        return self.last


@breaks("a_lost_backend_is_not_ready", "update_provider_tree(host1) has not returned within 3 s")
class Hangs(GoodDriver):
    def cards(self, nodename):
        while not self.backend.up:
            time.sleep(0.05)
        return super().cards(nodename)


@breaks("a_driver_starts_without_its_backend", "ConnectionError: the backend is down")
class ConnectsAtOnce(GoodDriver):
    def init_host(self, host):
        self.backend.check()


@breaks("a_driver_starts_without_its_backend", "DriverNotReady: lost for good")
class NeverTriesAgain(GoodDriver):
    lost = False

    def get_available_nodes(self):
        self.lost = self.lost or not self.backend.up
        if self.lost:
            raise DriverNotReady("lost for good")
        return super().get_available_nodes()


@breaks("the_root_is_left_to_the_agent", "COMPUTE_STATUS_DISABLED was set")
class DisablesItself(Also):
    def also(self, tree, node, cards):
        tree.add_traits(node, "COMPUTE_STATUS_DISABLED")


@breaks(
    "data_of_other_services_stays",
    "provider host1 (",
    "trait COMPUTE_STATUS_DISABLED: set -> nothing",
)
class EnablesItself(Also):
    def also(self, tree, node, cards):
        tree.remove_traits(node, "COMPUTE_STATUS_DISABLED")


@breaks("a_lost_device_is_gone", "has everything that it had before")
class KeepsWhatIsGone(GoodDriver):
    def remove_gone(self, tree, node, cards):
        pass


@breaks("a_lost_device_is_gone", "the running driver, then a restarted one", "host1_0000:84:00.0")
class RemovesOnlyWhatItRemembers(GoodDriver):
    last: frozenset[str] = frozenset()

    def remove_gone(self, tree, node, cards):
        for gone in self.last - set(cards):
            if tree.exists(f"{node}_{gone}"):
                tree.remove(f"{node}_{gone}")
        self.last = frozenset(cards)


@breaks("a_lost_device_is_gone", "no such provider")
class LooksAtWhatWentAlong(GoodDriver):
    def remove_gone(self, tree, node, cards):
        wanted = {f"{node}_{address}" for address in cards}
        for child in tree.get_provider_uuids(node):
            name = tree.data(child).name
            if is_card(name, node) and name not in wanted:
                tree.remove(child)


@breaks("a_thousand_devices_take_bounded_time_and_memory", "of processor time for 1000 devices")
class LooksAtAllForEach(GoodDriver):
    def report_card(self, tree, node, name):
        super().report_card(tree, node, name)
        for child in tree.get_provider_uuids(node):
            tree.exists(child) and tree.has_traits(child, ["CUSTOM_GOOD_CARD"])


@breaks("a_thousand_devices_take_bounded_time_and_memory", "MiB for a period of 1000 devices")
class KeepsDocuments(GoodDriver):
    def report(self, tree, node, cards, allocations):
        self.documents = {card: bytearray(100_000) for card in cards}
        super().report(tree, node, cards, allocations)


@breaks("quiet_periods_leave_no_memory", "12 quiet periods left")
class KeepsAHistory(Also):
    def __init__(self, context, backend):
        super().__init__(context, backend)
        self.history: list[Any] = []

    def also(self, tree, node, cards):
        self.history.append([tree.data(child) for child in tree.get_provider_uuids(node)])
