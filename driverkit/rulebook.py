"""The rules of the kit: what each one demands, why, and how to mend a driver that breaks it.

docs/driver-kit.rst and the texts of failed tests are made from these.
"""

from collections.abc import Mapping
from dataclasses import dataclass

DOCUMENT = "docs/driver-kit.rst"


@dataclass(frozen=True, slots=True)
class Rule:
    """``says`` is the rule in one sentence, ``why`` what goes wrong if a driver breaks it."""

    name: str
    says: str
    why: str
    mend: str


_RULES = (
    Rule(
        "answers",
        "While its backend works, a driver names its nodes and reports each node's resources.",
        "A node whose driver fails is not reported: nothing can be scheduled to it, or the "
        "last report stays although it is no longer true.",
        "Mend the error that is shown. If the backend can't answer now, raise DriverNotReady; "
        "leave out of the tree what this host does not have.",
    ),
    Rule(
        "closes",
        "init_host returns within seconds, and cleanup_host never fails, even if init_host was "
        "not called or failed.",
        "The agent opens every driver before it reports, and closes every one at its end, also "
        "after an error.",
        "Set all attributes that cleanup_host reads in the constructor, and close only what was "
        "opened. Do slow work when the first method needs it.",
    ),
    Rule(
        "node-names",
        "get_available_nodes returns a list of names that stay the same while nothing happens; "
        "get_nodenames_by_uuid has no other nodes.",
        "A name is a root provider in Placement: with another name it would be another host, and "
        "the guests' allocations would stay on the old one.",
        "Return a list, each name once, at most 200 characters, made from what identifies the "
        "node (host name, UUID), not from an order or a counter.",
    ),
    Rule(
        "root-stays",
        "The root provider keeps its name, its UUID and its place, and no second root is created.",
        "The root is the agent's: the driver is asked what is on it and below it.",
        "Use the root in the tree, which is named nodename. New devices are children: "
        "provider_tree.new_child(name, nodename).",
    ),
    Rule(
        "valid",
        "Placement accepts the names, amounts and UUIDs.",
        "What Placement would refuse is left out: the provider is reported in part or not at all.",
        "Provider names have 1 to 200 characters. Traits and resource classes come from os-traits "
        "and os-resource-classes, or are CUSTOM_ and A-Z, 0-9, _. total is at least 1 (leave a "
        "class out if there is none of it) and reserved at most total.",
    ),
    Rule(
        "status-trait",
        "COMPUTE_STATUS_DISABLED is not set.",
        "The agent sets it while the host is disabled, and removes it otherwise: set by a driver, "
        "it never reaches the scheduler.",
        "Leave the trait alone. Reserve inventory that can't be used for a while, or leave it "
        "out; report a lost hypervisor through watch(notify).",
    ),
    Rule(
        "own-names",
        "The name of a child is unique in the whole cloud.",
        "Provider names are unique in all of Placement: if two hosts have a gpu0, the "
        "second host's is refused.",
        'Begin it with the node\'s name, as in f"{nodename}_{address}", or use a serial number '
        "or a UUID.",
    ),
    Rule(
        "second-period",
        "A period in which nothing has happened changes nothing.",
        "Every difference is a write to Placement, on every host, in every period, and hides the "
        "changes that matter.",
        "Report the same for the same hardware: no clock, no counter, no free amounts "
        "(allocations show what guests use), nothing random.",
    ),
    Rule(
        "agree",
        "Two fresh drivers of the same host report the same tree.",
        "After a restart the agent would remove everything and create it again: allocations "
        "block that, and guests lose their devices.",
        "Derive names from the hardware's own, and let the tree make the UUIDs of children "
        "(new_child without uuid), or derive them: uuid5, never uuid4.",
    ),
    Rule(
        "restart",
        "A fresh driver changes nothing in a tree that was reported before.",
        "A restarted agent finds its own providers in the tree, and the hardware is the same.",
        "Check whether a provider exists (provider_tree.exists) before adding it; keep nothing "
        "in memory that can be read from the tree or the backend.",
    ),
    Rule(
        "any-order",
        "The order of nodes, and of providers in the tree, makes no difference.",
        "Placement lists providers in any order, and the agent calls for nodes in any order.",
        "Find providers by name or UUID, never by their position; sort what you number.",
    ),
    Rule(
        "any-thread",
        "The driver works in whichever thread it is called.",
        "The threads are the agent's, and not always the same one.",
        "Keep nothing that is bound to a thread: sqlite3 connections, event loops, "
        "threading.local.",
    ),
    Rule(
        "thread-safe",
        "A driver with thread_safe = True reports the same trees if it is called for all its nodes "
        "at once.",
        "The agent then calls it for several nodes at the same time.",
        "Guard data that the nodes share with a lock, or set thread_safe = False.",
    ),
    Rule(
        "foreign-providers",
        "Providers of other services, below the root, below its devices or beside it, stay.",
        "Other services add their own devices to the same tree; removing them destroys what they "
        "report.",
        "Derive the driver from DeviceDriver, or call provider_tree.set_own_children. Without them "
        "remove only children that you know to be yours, by their names.",
    ),
    Rule(
        "foreign-traits",
        "Traits that others set stay in the driver's tree.",
        "Operators and other services mark hosts with traits, and so does the agent itself; "
        "a lost trait changes where guests go.",
        "provider_tree.set_own_traits, or add_traits and remove_traits with traits of your own, "
        "instead of update_traits: it says what all traits are, and relies on the agent to know "
        "which are others'.",
    ),
    Rule(
        "foreign-aggregates",
        "Aggregates that others set stay in the driver's tree.",
        "They are what host aggregates, tenant isolation and shared storage are made of.",
        "provider_tree.set_own_aggregates, or add_aggregates and remove_aggregates with your own, "
        "instead of update_aggregates.",
    ),
    Rule(
        "drift",
        "Data of the driver that another service changed or deleted is restored in the next "
        "period.",
        "Placement can be edited by hand, restored from a backup, or lose a write; only the "
        "driver knows the host.",
        "Set everything in every period, on the tree that is passed; don't skip what you set "
        "last time. Recognize a renamed child as your own by its UUID.",
    ),
    Rule(
        "tree-not-kept",
        "The tree and the allocations are not kept after update_provider_tree has returned.",
        "A later edit of the tree raises ValueError; a later edit of the allocations may be sent.",
        "Keep a copy of what you need: provider_tree.data(name) returns one.",
    ),
    Rule(
        "documented-errors",
        "The driver raises no other exceptions than the documented ones: DriverNotReady, "
        "ReshapeNeeded, ReshapeFailed.",
        "The agent handles these. Any other exception is reported to the operator as a defect.",
        "Raise DriverNotReady for a node that does not exist (any more), and turn errors of the "
        "backend into DriverNotReady(str(err)).",
    ),
    Rule(
        "reshape-needed",
        "ReshapeNeeded is raised only when inventory that Placement has must move.",
        "A reshape reads all allocations and rewrites them; at start it can end the agent.",
        "Look at the tree: there is something to move only if a provider still has the inventory "
        "in the old place.",
    ),
    Rule(
        "reshape-asked",
        "A driver that finds its inventory in an old shape raises ReshapeNeeded first.",
        "Otherwise the old inventory would just be removed, which Placement refuses while guests "
        "use it, and the new one would look unused.",
        "If a class of the tree is to move from one provider to another and allocations is None: "
        "raise ReshapeNeeded before any edit.",
    ),
    Rule(
        "reshape-totals",
        "A reshape keeps each consumer's totals, and moves them to where the inventory is now.",
        "A guest that loses an allocation loses its device: another guest gets it.",
        "For each consumer move the amounts from the old provider to the new one, inside "
        "allocations[consumer]['allocations'], and no more to a provider than fits.",
    ),
    Rule(
        "foreign-allocations",
        "Allocations on providers whose inventory does not move are left alone.",
        "allocations holds those of all consumers, and is also passed when another driver "
        "reshapes.",
        "Edit only the entries of providers that your inventory moves from and to.",
    ),
    Rule(
        "lost-backend",
        "With the backend lost, update_provider_tree soon raises DriverNotReady, and does not edit "
        "the tree.",
        "A wrong report is worse than none: an empty tree would remove what guests use, and a "
        "driver that hangs delays the others.",
        "Read everything first, then write the tree; give every call of the backend a "
        "timeout; turn its errors into DriverNotReady.",
    ),
    Rule(
        "starts-without-backend",
        "A driver can be created and initialized while its backend is down, and works once the "
        "backend is up.",
        "Services start in any order; an agent that does not start can't report what is wrong.",
        "Connect when the backend is first needed, not in the constructor or init_host, and try "
        "again at each call while there is no connection.",
    ),
    Rule(
        "lost-device",
        "A removed device is removed from the tree, also if it went while the agent was down.",
        "Guests would be scheduled to a device that does not exist.",
        "Derive the driver from DeviceDriver, or call provider_tree.set_own_children with all of "
        "your children: both remove the others. Without them compare with the tree, not with your "
        "memory, and remove children first (reversed(get_provider_uuids(...))).",
    ),
    Rule(
        "time",
        "1,000 devices are reported in bounded time, which grows in proportion to their number, "
        "not to its square.",
        "A period is a minute, and other nodes and drivers wait for this one.",
        "Read all devices from the backend at once; don't walk the tree for each device: one "
        "get_provider_uuids and a dict.",
    ),
    Rule(
        "memory",
        "1,000 devices cost bounded memory.",
        "The agent shares the host with guests.",
        "Keep the values that the tree needs, not the documents that they came from.",
    ),
    Rule(
        "steady-memory",
        "Periods in which nothing has happened do not increase memory use.",
        "The agent runs for months.",
        "Don't add to lists or dicts in every period; replace what you keep.",
    ),
)

RULES: Mapping[str, Rule] = {rule.name: rule for rule in _RULES}
