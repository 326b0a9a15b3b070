"""The rules of the kit: what each one says, why, and how to mend a driver that breaks it.

The document (docs/driver-kit.rst) and every failure speak from here.
"""

from collections.abc import Mapping
from dataclasses import dataclass

DOCUMENT = "docs/driver-kit.rst"


@dataclass(frozen=True, slots=True)
class Rule:
    """``says`` is the rule in one sentence; ``why`` what goes wrong without it."""

    name: str
    says: str
    why: str
    mend: str


_RULES = (
    Rule(
        "answers",
        "A driver whose backend is there names its nodes and says on the tree what each one has.",
        "A node whose driver fails is not reported: nothing can be scheduled to it, or the "
        "last report stays although it is no longer true.",
        "Mend the error that is shown. What can't be known now is DriverNotReady; a part that "
        "is merely missing from this host is left out of the tree.",
    ),
    Rule(
        "closes",
        "init_host returns within seconds, and cleanup_host never fails, even if init_host was "
        "not called or failed.",
        "The agent opens every driver before it reports, and closes every one at its end, also "
        "after an error.",
        "Set in the constructor all that cleanup_host looks at, and close only what was opened. "
        "Leave what is slow to the first question.",
    ),
    Rule(
        "node-names",
        "get_available_nodes returns a list of names that stay the same while nothing happens; "
        "get_nodenames_by_uuid speaks of the same nodes.",
        "A name is a root provider in Placement: another name would be another host, and its "
        "guests' allocations would stay behind with the old one.",
        "Return a list, each name once, at most 200 characters, made from what identifies the "
        "node (host name, UUID), not from an order or a counter.",
    ),
    Rule(
        "root-stays",
        "The root provider keeps its name, its UUID and its place, and no second one is made.",
        "The root is the agent's: the driver is asked what is on it and below it.",
        "Use the root that is in the tree already, by nodename. New devices are children: "
        "provider_tree.new_child(name, nodename).",
    ),
    Rule(
        "valid",
        "Names, amounts and UUIDs are such that Placement takes them.",
        "What Placement refuses is left out: the provider is not reported, or not as it is.",
        "Provider names have 1 to 200 characters. Traits and resource classes are of os-traits "
        "and os-resource-classes, or CUSTOM_ and A-Z, 0-9, _. total is at least 1 (leave a "
        "class out when there is none of it) and reserved at most total.",
    ),
    Rule(
        "status-trait",
        "COMPUTE_STATUS_DISABLED is not set.",
        "The agent sets it while the host is disabled, and takes away any other: what a driver "
        "says with it never reaches the scheduler.",
        "Leave the trait alone. What can't be used for a while is reserved in its inventory, or "
        "not reported; that the hypervisor is lost is told by watch(tell).",
    ),
    Rule(
        "own-names",
        "A child's name is its own in the whole cloud.",
        "Provider names are unique in all of Placement: where two hosts have a gpu0, the "
        "second one's is refused.",
        'Begin it with the node\'s name, as in f"{nodename}_{address}", or use a serial number '
        "or a UUID.",
    ),
    Rule(
        "second-period",
        "A period in which nothing has happened changes nothing.",
        "Every difference is a write to Placement, on every host, in every period; and it hides "
        "the change that matters.",
        "Report the same for the same hardware: no clock, no counter, no free amounts (guests' "
        "use is in allocations), nothing random.",
    ),
    Rule(
        "agree",
        "Two fresh drivers of the same host report the same tree.",
        "After a restart the agent would take everything away and make it again: allocations "
        "block that, and guests lose their devices.",
        "Take names from what the hardware is called, and let the tree number the children "
        "(new_child without uuid), or derive UUIDs: uuid5, never uuid4.",
    ),
    Rule(
        "restart",
        "A fresh driver changes nothing in a tree that was reported already.",
        "An agent that is restarted finds its own providers in the tree; nothing has happened "
        "since.",
        "Look whether a provider is there (provider_tree.exists) before adding it; keep nothing "
        "in memory that the tree or the backend can tell.",
    ),
    Rule(
        "any-order",
        "The order of nodes, and of providers in the tree, makes no difference.",
        "Placement lists providers in any order, and nodes are asked in any order.",
        "Find providers by name or UUID, never by their position; sort what you number.",
    ),
    Rule(
        "any-thread",
        "The driver works whichever thread asks it.",
        "The threads are the agent's, and not always the same one.",
        "Keep no thread's own things: sqlite3 connections, event loops, threading.local.",
    ),
    Rule(
        "thread-safe",
        "A driver that says thread_safe = True gives the same trees when all its nodes are asked "
        "at once.",
        "The agent then asks for several nodes at the same time.",
        "Guard what the nodes share with a lock, or say thread_safe = False.",
    ),
    Rule(
        "foreign-providers",
        "Providers of others, below the root, below its devices or beside it, stay as they are.",
        "Other services hang their own devices into the same tree; taking them away destroys "
        "what they report.",
        "Remove only children that you know to be yours, by their names; never 'all that I did "
        "not report'.",
    ),
    Rule(
        "foreign-traits",
        "Traits that others set stay.",
        "Operators and other services mark hosts with traits, and so does the agent itself; "
        "losing one moves guests.",
        "provider_tree.add_traits and remove_traits with traits of your own, instead of "
        "update_traits.",
    ),
    Rule(
        "foreign-aggregates",
        "Aggregates that others set stay.",
        "They are what host aggregates, tenant isolation and shared storage are made of.",
        "provider_tree.add_aggregates and remove_aggregates with your own, instead of "
        "update_aggregates.",
    ),
    Rule(
        "drift",
        "What somebody changed or deleted of the driver's own is put back in the next period.",
        "Placement can be edited by hand, restored from a backup, or lose a write; the driver "
        "is the one who knows.",
        "Say everything in every period, from the tree that you are handed; don't skip what "
        "you said last time. Take a child that was renamed as your own by its UUID.",
    ),
    Rule(
        "tree-not-kept",
        "The tree and the allocations are not kept after update_provider_tree has returned.",
        "The agent goes on with them: a later edit would be written to Placement, or lost.",
        "Keep a copy of what you need: provider_tree.data(name) is one.",
    ),
    Rule(
        "documented-errors",
        "Nothing but the documented exceptions comes out: DriverNotReady, ReshapeNeeded, "
        "ReshapeFailed.",
        "The agent knows what to do about these. All else is told to the operator as a defect.",
        "A node that is not there (any more) is DriverNotReady; turn the errors of your backend "
        "into DriverNotReady(str(err)).",
    ),
    Rule(
        "reshape-needed",
        "ReshapeNeeded is raised only when inventory that Placement has must move.",
        "A reshape reads all allocations and rewrites them; at start it can end the agent.",
        "Look at the tree: only if a provider there still has the inventory in the old place is "
        "there something to move.",
    ),
    Rule(
        "reshape-asked",
        "A driver that finds its inventory in an old shape raises ReshapeNeeded first.",
        "Without it the old inventory is just removed, which Placement refuses while guests "
        "use it, and the new one looks empty.",
        "When a class in the tree is about to vanish from one provider and to appear on another "
        "one, and allocations is None: raise ReshapeNeeded before any edit.",
    ),
    Rule(
        "reshape-totals",
        "A reshape keeps what each consumer has, and puts it where the inventory is now.",
        "What is lost here, a guest has lost: another one gets its device.",
        "For each consumer move the amounts from the old provider to the new one, inside "
        "allocations[consumer]['allocations'], and no more on one than it holds.",
    ),
    Rule(
        "foreign-allocations",
        "Allocations on providers whose inventory does not move are left alone.",
        "allocations holds everybody's, and is also given when another driver reshapes.",
        "Edit only the entries of providers that your inventory moves from and to.",
    ),
    Rule(
        "lost-backend",
        "With the backend lost, update_provider_tree raises DriverNotReady, soon, and has not "
        "touched the tree.",
        "A wrong report is worse than none: an empty tree would take away what guests use, and "
        "a driver that hangs holds up the others.",
        "Read everything first, then write the tree; give every question to the backend a "
        "time-out; turn its errors into DriverNotReady.",
    ),
    Rule(
        "starts-without-backend",
        "A driver can be made and opened while its backend is down, and works once it is back.",
        "Hosts boot in any order; an agent that does not start can't report that it is not well.",
        "Connect at the first question, not in the constructor or init_host, and again at each "
        "one while there is no connection.",
    ),
    Rule(
        "lost-device",
        "A device that is gone is gone from the tree, also if it went while the agent was down.",
        "Guests would be scheduled to a device that is not there.",
        "Compare with the tree, not with your memory: remove those of your children in it that "
        "the backend no longer has. What is below a provider goes along with it: look at "
        "children first (reversed(get_provider_uuids(...))), or ask exists() again.",
    ),
    Rule(
        "time",
        "1,000 devices are reported in bounded time, that grows with their number and not with "
        "its square.",
        "A period is a minute, and other nodes and drivers wait for this one.",
        "Ask the backend for all devices at once; don't walk the tree for each device: one "
        "get_provider_uuids and a dict.",
    ),
    Rule(
        "memory",
        "1,000 devices cost bounded memory.",
        "The agent shares the host with guests.",
        "Keep what the tree needs of a device, not the documents that it came from.",
    ),
    Rule(
        "steady-memory",
        "Periods in which nothing has happened cost no memory that stays.",
        "The agent runs for months.",
        "Don't append to lists or dicts in every period; replace what you remember.",
    ),
)

RULES: Mapping[str, Rule] = {rule.name: rule for rule in _RULES}
