"""One host, its agent, and everybody else, over a Placement in memory; period by period.

Only this file knows how the agent is put together and where it keeps what.  The tests
say what drivers and files assert, what others do, and what Placement has afterwards.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from agent.state.saved_root import root_path
from drivers.api import DriverNotReady
from drivers.libvirt.tree.children import write_report
from drivers.libvirt.tree.reported import HostReport
from reportclient.provider_tree import own_uuid
from tests.agents import NODE as NODE
from tests.agents import OWNER as OWNER
from tests.agents import ROOT as ROOT
from tests.agents import VERIFY, Agent, Body, Small
from tests.agents import both as both
from tests.integration.provider_hosts import EVERY_ROOT as EVERY_ROOT
from tests.integration.provider_hosts import HEAD
from tests.integration.provider_hosts import entry as entry
from tests.stranger import FakePlacement

AUDIT = 86400.0
SOON = 60.0
"""Seconds after which nothing is verified yet."""
# -- what drivers say


class Scripted(Small):
    """It may know UUIDs of its nodes."""

    def __init__(self, body: Body, nodes: list[str]) -> None:
        super().__init__(body, nodes)
        self.told: Mapping[str, str] = {}

    def get_nodenames_by_uuid(self):
        return {uuid: name for name, uuid in self.told.items()}


def inventory(provider: str = NODE, **totals: int) -> Body:
    """Sets a whole inventory, as a driver does that knows of nobody else."""
    return lambda tree: tree.update_inventory(
        provider, {name: {"total": total} for name, total in totals.items()}
    )


def traits(*names: str, provider: str = NODE) -> Body:
    return lambda tree: tree.add_traits(provider, *names)


def aggregates(*uuids: str, provider: str = NODE) -> Body:
    return lambda tree: tree.add_aggregates(provider, *uuids)


def child(name: str, *, parent: str = NODE, uuid: str | None = None, **totals: int) -> Body:
    def body(tree: Any) -> None:
        if not tree.exists(name):
            tree.new_child(name, parent, uuid)
        tree.update_inventory(name, {key: {"total": total} for key, total in totals.items()})

    return body


def pool(name: str, uuid: str, aggregate: str, **totals: int) -> Body:
    """A provider of its own whose inventory is shared with all of an aggregate."""

    def body(tree: Any) -> None:
        if not tree.exists(uuid):
            tree.new_root(name, uuid)
        tree.update_inventory(uuid, {key: {"total": total} for key, total in totals.items()})
        tree.add_traits(uuid, "MISC_SHARES_VIA_AGGREGATE")
        tree.add_aggregates(uuid, aggregate)
        tree.add_aggregates(NODE, aggregate)

    return body


def removes(*providers: str) -> Body:
    def body(tree: Any) -> None:
        for each in providers:
            if tree.exists(each):
                tree.remove(each)

    return body


def unanswered(tree: Any) -> None:
    """Has nothing to say."""


def fails(tree: Any) -> None:
    """It is not known what there is; half of an answer is left behind."""
    tree.update_inventory(NODE, {"VCPU": {"total": 666}})
    tree.add_traits(NODE, "CUSTOM_HALF_DONE")
    raise DriverNotReady("not now")


def reporting(report: HostReport) -> Body:
    """As the libvirt driver does, after its look at the host."""
    return lambda tree, allocations: write_report(tree, NODE, report, allocations) and None


# -- the way to Placement


@dataclass
class Door:
    """To Placement, with somebody who gets in between: each of ``before`` acts once."""

    placement: FakePlacement
    before: list[tuple[str, str, Callable[[], object]]] = field(default_factory=list)

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        for waiting in [b for b in self.before if b[0] == method and path.endswith(b[1])][:1]:
            self.before.remove(waiting)
            waiting[2]()
        return self.placement.request(method, path, json=json, needs=needs)


class Host(Agent):
    """An agent whose drivers are bodies by name, in the order of the configuration.

    With ``state`` it lives on in a directory.  ``attached``: the root is somebody else's, who has
    made it.
    """

    def __init__(
        self,
        placement: FakePlacement,
        bodies: Mapping[str, Body],
        state: Path | None = None,
        files: Path | None = None,
        *,
        node: str = NODE,
        root: str = ROOT,
        capabilities: Mapping[str, bool] | None = None,
        **options: Any,
    ) -> None:
        self.stranger, self.door = placement.stranger, Door(placement)
        self.bodies, self.capabilities = bodies, capabilities or {}
        self.names_of_nodes, self.top = [node], root
        own = "" if options.get("attached") else root
        wanted = {"root": own, "audit_every": AUDIT, "keeps_names": True, **options}
        super().__init__(placement, state=state, files=files, **wanted)

    # -- what happens to the host

    def restart(self, **bodies: Body) -> Self:
        """A new process; with other drivers if some are given."""
        self.bodies = bodies or self.bodies
        self.scripted = {
            name: Scripted(body, self.names_of_nodes) for name, body in self.bodies.items()
        }
        for driver in self.scripted.values():
            driver.capabilities = self.capabilities
        self.api, self.named = self.door, dict(self.scripted)
        return super().restart()

    def says(self, **bodies: Body) -> Self:
        """From now on these drivers say something else."""
        for name, body in bodies.items():
            self.scripted[name].body = body
        self.bodies = {**self.bodies, **bodies}
        return self

    def is_called(self, *names: str) -> Self:
        """The host's nodes have these names now."""
        self.names_of_nodes = list(names)
        for driver in self.scripted.values():
            driver.nodes = self.names_of_nodes
        return self

    def tells(self, uuids: Mapping[str, str]) -> None:
        """The driver knows these UUIDs of its nodes."""
        for driver in self.scripted.values():
            driver.told = uuids

    def complaints(self, after: float = 2 * VERIFY, **options: Any) -> str:
        """All that one period complains of."""
        return " | ".join(self.period(after, **options).texts())

    def between(self, method: str, path: str, act: Callable[[], object]) -> Self:
        """Somebody acts right before the next such request; ``path`` is its end."""
        self.door.before.append((method, path, act))
        return self

    def write_file(self, *entries: str, name: str = "a.yaml") -> Self:
        assert self.files is not None
        (self.files / name).write_text(HEAD + ("".join(entries) or "  []\n"))
        self.reload()
        return self

    # -- what the agent keeps

    def lose_all(self) -> None:
        """Also the view of Placement: as after a new installation under the old identity."""
        self._kept.unlink(missing_ok=True)

    @property
    def _kept(self) -> Path:
        assert self.state is not None
        return root_path(self.state, self.top)

    # -- what Placement has; providers by name or UUID

    def uuid(self, name: str) -> str:
        found = self.placement.answer("GET", f"/resource_providers?name={name}")
        for item in found["resource_providers"]:
            return str(item["uuid"])
        return name

    def is_there(self, name: str) -> bool:
        return self.uuid(name) != name

    def names(self, root: str | None = None) -> set[str]:
        """Of all providers in the tree of the root."""
        path = f"/resource_providers?in_tree={root or self.top}"
        return {item["name"] for item in self.placement.answer("GET", path)["resource_providers"]}

    def records(self, provider: str = NODE) -> dict[str, dict[str, Any]]:
        return self.stranger.inventory(self.uuid(provider))

    def totals(self, provider: str = NODE) -> dict[str, int]:
        return {name: record["total"] for name, record in self.records(provider).items()}

    def reserved(self, provider: str = NODE) -> dict[str, int]:
        return {name: record["reserved"] for name, record in self.records(provider).items()}

    def custom(self, provider: str = NODE) -> set[str]:
        """Custom traits but for the owner's."""
        found = self.stranger.traits(self.uuid(provider))
        return {name for name in found if name.startswith("CUSTOM_")} - {OWNER}

    def traits(self, provider: str = NODE) -> set[str]:
        return self.stranger.traits(self.uuid(provider))

    def aggregates(self, provider: str = NODE) -> set[str]:
        return self.stranger.aggregates(self.uuid(provider))

    def parent(self, provider: str) -> str | None:
        """The name of what it is below."""
        above = self.stranger.provider(self.uuid(provider))["parent_provider_uuid"]
        return None if above is None else str(self.stranger.provider(above)["name"])

    def everything(self, root: str | None = None) -> dict[str, tuple[Any, ...]]:
        """All that there is in a tree, but for generations."""
        return {
            name: (
                self.uuid(name),
                self.parent(name),
                self.records(name),
                self.traits(name),
                self.aggregates(name),
            )
            for name in self.names(root)
        }


def settled_host(*args: Any, **options: Any) -> Host:
    """A :class:`Host` that has reported, and has nothing more to write."""
    host = Host(*args, **options)
    host.settled()
    return host


def own(name: str, root: str = ROOT) -> str:
    """The UUID of a child that a driver makes without saying which."""
    return own_uuid(root, name)
