"""Client: provider trees out of Placement, and back into it.

    client = Client(adapter)
    tree = client.tree(root)              # what Placement has; no call while it is fresh
    tree.update_inventory("gpu0", {"VGPU": {"total": 8}})
    result = client.update(tree)          # Placement is made equal to it

``adapter`` is keystoneauth's.  Each root is to be used by one thread at a time; several
threads may use several roots.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from reportclient.allocations import LazyAllocations, Moves
from reportclient.calls import Counting
from reportclient.diff import diff
from reportclient.errors import NotFound, PlacementError, Rejected
from reportclient.http import API, PlacementAPI, as_api
from reportclient.model import Allocations, Provider
from reportclient.plan import Operation, Plan, Problem
from reportclient.provider_tree import ProviderTree
from reportclient.reader import provider_by_name, provider_by_uuid
from reportclient.rebase import foreign_changes, rebased
from reportclient.root import BulkWrites, Root, Store
from reportclient.schedule import AT_ONCE, Times
from reportclient.snapshot import Snapshot
from reportclient.view import View

Change = Callable[[ProviderTree], None]


class NotOwned(PlacementError):
    """A change of what ``owns`` says is somebody else's.  Nothing was sent."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an update.

    ``done`` are the operations that Placement acknowledged, ``failed`` what it refused, by
    UUID or name, and ``draining`` those of them that consumers still use: reserved whole
    meanwhile.  ``problems`` is what was not sent, since Placement would refuse it in any
    case.  What is refused is asked again at the next verification, or if it changes.
    """

    view: View
    done: tuple[Operation, ...] = ()
    failed: Mapping[str, PlacementError] = field(default_factory=dict)
    draining: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    calls: int = 0

    @property
    def ok(self) -> bool:
        """Whether Placement is now equal to the tree."""
        return not self.failed and not self.problems


class Client:
    """A report client.

    :param adapter: keystoneauth's for Placement, or whatever has ``request`` as
        :class:`reportclient.http.API`, such as the tests' fake.
    :param store: where views are kept, so that a restart costs one call for each root.
    :param times: how often a tree is verified (1 GET) and read anew, in seconds; how many
        requests are sent at once.
    :param bulk_chunk: how many inventories are written in one call by Placement's reshaper,
        where policy allows it; 0: none.
    :param owns: whether a provider is ours to change.  Without it all of the tree is, and of
        the sharing providers beside it none.  Children below others' are always allowed.
    :param strict: raise for problems and refusals, rather than telling of them.
    :param max_version: the newest microversion to be spoken.
    :param clock: seconds, monotonic.
    """

    def __init__(  # noqa: PLR0913  each is a choice of its own
        self,
        adapter: Any,
        *,
        store: Store | None = None,
        times: Times | None = None,
        bulk_chunk: int = 0,
        owns: Callable[[Provider], bool] | None = None,
        strict: bool = False,
        max_version: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.api = as_api(adapter, max_version)
        self._store = store
        self._times = times or Times(at_once=AT_ONCE)
        self._bulk = BulkWrites(bulk_chunk)
        self._owns = owns
        self._strict = strict
        self._clock = clock
        self._roots: dict[str, Root] = {}
        self._held: dict[str, LazyAllocations] = {}

    def find_provider(self, name: str) -> str | None:
        """UUID of the provider that has this name, in whatever tree, or ``None``; 1 GET.

        :raises reportclient.errors.PlacementError: Placement was not to be read.
        """
        provider = provider_by_name(name, self.api)
        return None if provider is None else str(provider["uuid"])

    def tree(
        self, root: str, *, name: str | None = None, request_id: str | None = None
    ) -> ProviderTree:
        """The tree of a root (UUID), to be edited, with the sharing providers beside it.

        No call while it was read and is not due for verification, else 1 GET if nothing moved.
        With ``name`` a root that is not there is begun, and made by :meth:`update`.
        ``request_id``, here and elsewhere, is the caller's, for the logs of both.

        :raises NotFound: there is no such root.
        :raises reportclient.errors.PlacementError: Placement was not to be read.
        """
        tracked = self._root(root)
        self._read(tracked, request_id)
        tree = tracked.view.edit()
        if not tree.exists(root):
            if name is None:
                raise NotFound(f"Placement has no provider {root}")
            tree.new_root(name, root)
        return tree

    def update(
        self,
        tree: ProviderTree,
        *,
        allocations: Allocations | None = None,
        request_id: str | None = None,
    ) -> Result:
        """Make Placement equal to a tree that :meth:`tree` gave.

        Somebody else's changes in the meantime stay, where the tree does not change the
        same thing.  ``allocations`` (of :meth:`allocations`, changed) makes it a reshape:
        inventories and these consumers' allocations move in one transaction.  What comes
        back says what was done, and what Placement refused.

        :raises reportclient.errors.PlacementError: it ended early; what is done is done.
        :raises reportclient.reshape.AllocationsBroken: allocations were lost or invented.
        :raises NotOwned: the tree changes what ``owns`` says is not ours.
        :raises ValueError: the tree is of no root of this client; or, if ``strict``, something
            in it is not sent.
        """
        base, desired = tree.base, tree.freeze()
        tracked = self._root_of(tree)
        held = self._held.pop(tracked.uuid, None) if allocations is not None else None

        def once(api: Counting) -> Result:
            now = tracked.view.snapshot
            new = _on_top(base, desired, now)
            return self._write(
                tracked, new, api, Moves.from_allocations(held, allocations, now, new)
            )

        return self._written(tracked, once, request_id)

    def edit(self, provider: str, change: Change, *, request_id: str | None = None) -> Result:
        """Change one provider (UUID), or what is around it; done again after a conflict.

        ``change`` gets the provider's tree, each time as Placement has it then; what it raises
        ends the edit, and nothing is sent.

        :raises NotFound: it is in no tree.
        :raises reportclient.errors.PlacementError: as :meth:`update`.
        """
        tracked = self._root(self._where(provider))

        def once(api: Counting) -> Result:
            tree = tracked.view.edit()
            if not tree.exists(provider):
                raise NotFound(f"Placement has no provider {provider}")
            change(tree)
            return self._write(tracked, tree.freeze(), api, Moves())

        return self._written(tracked, once, request_id)

    def allocations(self, root: str) -> LazyAllocations:
        """Return the allocations on the tree of a root, by consumer (UUID).

        Nothing is read before it is looked at, which raises what reading Placement does.
        """
        self._held[root] = LazyAllocations(self._root(root).view, self.api)
        return self._held[root]

    def stale(self, root: str) -> None:
        """Have the tree of a root verified before it is given or written again; no call now."""
        tracked = self._root(root)
        tracked.view = tracked.view.stale()

    def delete(self, root: str) -> Result:
        """Remove a root with all below it; what is in use is drained, and told as failed.

        :raises NotFound: there is no such root.
        :raises reportclient.errors.PlacementError: as :meth:`update`.
        """
        tree = self.tree(root)
        tree.remove(root)
        return self.update(tree)

    def _root(self, uuid: str) -> Root:
        if uuid not in self._roots:
            made = Root(uuid, self.api, self._times, self._bulk, self._store)
            made.load_saved_view()
            learned = [one.view.names for one in self._roots.values()]
            if not made.view.generations and learned:
                made.view = replace(made.view, names=learned[-1])
            self._roots[uuid] = made
        return self._roots[uuid]

    def _root_of(self, tree: ProviderTree) -> Root:
        for uuid in (*tree.base.children(None), *(root.uuid for root in tree.roots)):
            if uuid in self._roots:
                return self._roots[uuid]
        raise ValueError("this tree was not made by Client.tree()")

    def _where(self, provider: str) -> str:
        for uuid, root in self._roots.items():
            if provider in root.view.snapshot and provider not in root.view.sharing:
                return uuid
        listed = provider_by_uuid(provider, self.api)
        if listed is None:
            raise NotFound(f"Placement has no provider {provider}")
        return str(listed["root_provider_uuid"])

    def _read(self, tracked: Root, request_id: str | None) -> None:
        now = self._clock()
        api = self._tagged(request_id)
        result, _ = tracked.attempt(
            now, lambda counting: tracked.refresh(counting, now), api, urgent=True
        )
        if isinstance(result, Exception):
            tracked.view = tracked.view.stale()
            raise result

    def _tagged(self, request_id: str | None) -> API | None:
        if request_id is None or not isinstance(self.api, PlacementAPI):
            return None
        return self.api.tagged(request_id)

    def _written(
        self, tracked: Root, once: Callable[[Counting], Result], request_id: str | None
    ) -> Result:
        now = self._clock()

        def read_first(api: Counting) -> Result:
            tracked.refresh(api, now)
            return once(api)

        # Whoever calls has a pace of his own: no call is refused because one before it failed.
        result, api = tracked.attempt(now, read_first, self._tagged(request_id), urgent=True)
        if isinstance(result, Exception):
            raise result
        result = replace(result, calls=api.calls, done=tuple(api.done))
        if self._strict:
            _raise_any(result)
        return result

    def _write(self, tracked: Root, new: Snapshot, api: Counting, moves: Moves) -> Result:
        plan = self._plan(tracked.view, new, moves)
        outcome = tracked.write(plan, api)
        if outcome.stopped_by is not None:
            raise outcome.stopped_by
        refusals = tracked.refusals
        failed = refusals.causes(outcome.failed)
        return Result(tracked.view, (), failed, refusals.draining(), plan.problems)

    def _plan(self, view: View, new: Snapshot, moves: Moves) -> Plan:
        if self._owns is not None:
            ours = (one.uuid for one in view.snapshot.walk() if self._owns(one))
            for foreign in foreign_changes(view.snapshot, new, ours):
                raise NotOwned(f"provider {foreign.name} ({foreign.uuid}) is not ours: unchanged")
        return diff(
            view.snapshot,
            new,
            moves.allocations,
            names=view.names,
            foreign=view.sharing if self._owns is None else frozenset(),
            in_use=moves.in_use,
        )


def _on_top(base: Snapshot, desired: Snapshot, now: Snapshot) -> Snapshot:
    try:
        return rebased(base, desired, now)
    except ValueError as err:
        raise Rejected(f"this change conflicts with one made meanwhile: {err}") from err


def _raise_any(result: Result) -> None:
    for err in result.failed.values():
        raise err
    for problem in result.problems:
        raise ValueError(str(problem))
