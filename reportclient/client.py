"""Client: read provider trees from Placement, and write changed ones back.

    client = Client(adapter)
    tree = client.tree(root)              # what Placement has; cached, so often without a call
    tree.update_inventory("gpu0", {"VGPU": {"total": 8}})
    result = client.update(tree)          # makes Placement equal to the tree

``adapter`` is a keystoneauth adapter, ``root`` the UUID of a root provider.
"""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from threading import RLock
from typing import Any

from reportclient.errors import Conflict, InUse, NotFound, NotOwned, NotSent, PlacementError, Wrong
from reportclient.http import API, PlacementAPI, as_api
from reportclient.model import Allocations, Provider, canonical_uuid, name_problem
from reportclient.one_provider import OneProvider
from reportclient.plan import DeleteProvider, Operation, Problem, SetInventory, diff
from reportclient.provider_tree import ProviderTree, classes_set
from reportclient.reader import LazyAllocations, provider_by_name, provider_by_uuid
from reportclient.refusals import Refusals, users_by_class
from reportclient.root import BulkWrites, Counting, Root, Store
from reportclient.schedule import AT_ONCE, Times
from reportclient.snapshot import Snapshot
from reportclient.view import View, still_drained

Change = Callable[[ProviderTree], None]


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an update.

    ``view`` is the state after the update.  ``done`` are the operations that Placement
    acknowledged.  ``failed`` has the errors of those that it refused, by provider UUID, or by
    the name of the trait or class.  ``waiting`` has, by provider UUID, why something can't be
    removed yet: consumers or other services use it.  ``draining`` are the UUIDs of providers of
    which inventory is reserved until then.  ``problems`` are changes that were left out: names
    that Placement does not know, or what another client has created below.  ``calls`` is the
    number of requests.

    What waits is removed by the first update after its last consumer has gone, unless that update
    sets it again.
    """

    view: View
    done: tuple[Operation, ...] = ()
    failed: Mapping[str, PlacementError] = field(default_factory=dict)
    waiting: Mapping[str, InUse] = field(default_factory=dict)
    draining: frozenset[str] = frozenset()
    problems: tuple[Problem, ...] = ()
    calls: int = 0

    @property
    def ok(self) -> bool:
        """Whether all of the tree is in Placement, but for what has to wait."""
        return not self.failed and not self.problems


@dataclass(slots=True)
class _Tree(Root):
    """A root, with what the caller does with it."""

    held: LazyAllocations | None = None
    """The allocations that the caller has taken and not moved yet."""
    leaving: set[str] = field(default_factory=set)
    """UUIDs of providers that were removed and are in use."""
    lock: RLock = field(default_factory=RLock)
    """Held while the view is read or written."""


class Client:
    """A report client, which threads may share: those that use the same root wait for each other.

    :param adapter: a keystoneauth adapter for Placement (openstacksdk's proxy is one), or an object
        with the method ``request`` of :class:`reportclient.http.API`, such as
        :class:`reportclient.testing.fake_placement.FakePlacement`.
    :param store: saves views, so that after a restart a tree costs one call, such as
        :class:`reportclient.saved_view.FileStore`.
    :param times: how often a tree is verified (1 GET) and read completely, in seconds, and how
        many requests are sent in parallel.
    :param bulk_chunk: how many inventories are written in one call by Placement's reshaper,
        if its policy allows that; 0: one call for each.
    :param owns: returns whether the caller may change a provider; by default all providers of
        the tree, but not its sharing providers.  Children may be created below any provider.
    :param strict: raise the first error or problem instead of returning it in the result.
    :param clock: returns seconds of a monotonic clock.
    """

    def __init__(  # noqa: PLR0913  all but the adapter are optional keywords
        self,
        adapter: Any,
        *,
        store: Store | None = None,
        times: Times | None = None,
        bulk_chunk: int = 0,
        owns: Callable[[Provider], bool] | None = None,
        strict: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.api = as_api(adapter)
        self._store = store
        self._times = times or Times(at_once=AT_ONCE)
        self._bulk = BulkWrites(bulk_chunk)
        self._owns = owns
        self._strict = strict
        self._clock = clock
        self._roots: dict[str, _Tree] = {}
        self._providers: dict[str, OneProvider] = {}

    def find_provider(self, name: str) -> str | None:
        """Return the UUID of the provider with this name, in any tree, or ``None``; 1 GET.

        :raises reportclient.errors.PlacementError: the GET failed.
        """
        provider = provider_by_name(name, self.api)
        return None if provider is None else str(provider["uuid"])

    def tree(
        self, root: str, *, name: str | None = None, request_id: str | None = None
    ) -> ProviderTree:
        """Return the tree of a root, with its sharing providers, for editing.

        Sends no call between verifications; a verification is 1 GET if nothing has changed.

        :param root: UUID of the root provider.
        :param name: if there is no such root, return a tree with a new root of this name;
            :meth:`update` creates it.
        :param request_id: a global request id (``req-`` and a UUID) for Placement's log.
        :raises NotFound: there is no such root, and ``name`` is not given.
        :raises reportclient.errors.PlacementError: reading failed.
        """
        tracked = self._root(root, root)
        try:
            self._attempt(tracked, lambda _: Result(tracked.view), request_id)
        except Exception:
            with tracked.lock:
                tracked.view = tracked.view.stale()
            raise
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
        """Make Placement equal to an edited tree of :meth:`tree`.

        Changes that other clients made meanwhile stay, unless the tree changes the same thing.

        :param allocations: changed copies of :meth:`allocations`, by consumer.  They make the
            update a reshape: inventories and allocations move in one transaction.
        :param request_id: a global request id (``req-`` and a UUID) for Placement's log.
        :raises reportclient.errors.PlacementError: the update ended early; acknowledged
            operations stay done.  If ``strict``: the first refusal.
        :raises reportclient.reshape.AllocationsBroken: allocations were lost or invented.
        :raises reportclient.errors.Wrong: no Placement takes a change, or it is not the caller's.
            Nothing was sent.
        :raises ValueError: :meth:`tree` did not return this tree; or ``allocations`` is given
            but :meth:`allocations` was not called.
        """
        base, desired = tree.base, tree.freeze()
        uuids = (*base.children(None), *(root.uuid for root in tree.roots))
        tracked = next(filter(None, map(self._roots.get, uuids)), None)
        if tracked is None:
            raise ValueError("this tree is not one that Client.tree() returned")

        def write_tree(api: Counting) -> Result:
            try:
                new = rebased(base, desired, tracked.view.edit().base)
            except ValueError as err:
                text = f"the tree conflicts with another client's change: {err}"
                raise Conflict(text) from err
            text = "not removed: another client has created or moved a provider below it"
            not_removed = [
                uuid for uuid in desired.changed_since(base) if uuid in new and uuid not in desired
            ]
            result = self._write(tracked, tree, new, api, allocations)
            kept = [Problem(uuid, new.providers[uuid].name, text) for uuid in not_removed]
            return replace(result, problems=(*result.problems, *kept))

        try:
            return self._attempt(tracked, write_tree, request_id)
        finally:
            if allocations is not None:
                tracked.held = None

    def edit(self, provider: str, change: Change, *, request_id: str | None = None) -> Result:
        """Change the tree of a provider (UUID) with a function.

        :param change: edits the tree as Placement has it.  It is called again after a conflict.
            If it raises, nothing is sent.
        :param request_id: a global request id (``req-`` and a UUID) for Placement's log.
        :raises NotFound: there is no such provider.
        :raises reportclient.errors.PlacementError: as :meth:`update`.
        """
        provider = canonical_uuid(provider, "provider")
        views = [(uuid, root.view) for uuid, root in list(self._roots.items())]
        having = [(uuid, view) for uuid, view in views if provider in view.snapshot]
        roots = [uuid for uuid, view in having if provider not in view.sharing]
        if not roots:
            listed = provider_by_uuid(provider, self.api)
            if listed is None:
                raise NotFound(f"Placement has no provider {provider}")
            roots = [listed["root_provider_uuid"]]
        tracked = self._root(roots[0], provider)

        def write_change(api: Counting) -> Result:
            tree = tracked.view.edit()
            if not tree.exists(provider):
                raise NotFound(f"Placement has no provider {provider}")
            change(tree)
            return self._write(tracked, tree, tree.freeze(), api)

        return self._attempt(tracked, write_change, request_id)

    def allocations(self, root: str) -> LazyAllocations:
        """Return the allocations on the tree of a root (UUID), by consumer UUID.

        They are read on access, which may raise :class:`reportclient.errors.PlacementError`.
        """
        tracked = self._root(root)
        tracked.held = LazyAllocations(tracked.view, self.api)
        return tracked.held

    def provider(self, uuid: str) -> OneProvider:
        """Return one provider, of which nothing else is read; it need not exist.  Sends no call.

        ``owns`` is not asked: the caller names the provider itself.
        """
        key = canonical_uuid(uuid, "provider")
        return self._providers.setdefault(key, OneProvider(key, self.api, self._times))

    def forget(self, uuid: str) -> None:
        """Forget a root or one provider (UUID), also in the store; sends no call."""
        key = canonical_uuid(uuid, "provider")
        self._roots.pop(key, None)
        self._providers.pop(key, None)
        if self._store is not None:
            self._store.forget(key)

    def stale(self, root: str) -> None:
        """Mark the tree of a root (UUID) to be verified before its next use; sends no call."""
        tracked = self._root(root)
        with tracked.lock:
            tracked.view = tracked.view.stale()

    def delete(self, root: str) -> Result:
        """Delete a root (UUID) with all below it, whoever shares it; what is used is drained.

        What is drained is in ``waiting``: delete the root again once nobody uses it.

        :raises NotFound: there is no such root.
        :raises reportclient.errors.PlacementError: as :meth:`update`.
        """
        tree = self.tree(root)
        tree.remove(root)
        return self.update(tree)

    def delete_trait(self, name: str) -> None:
        """Delete a custom trait that no provider has any more; it may be gone already.

        :raises ValueError: this is not the name of a trait.
        :raises reportclient.errors.InUse: a provider has it.
        :raises reportclient.errors.PlacementError: Placement refused it, or did not answer.
        """
        self._delete("trait", f"/traits/{name}", name)

    def delete_class(self, name: str) -> None:
        """Delete a custom resource class that no inventory has; as :meth:`delete_trait`."""
        self._delete("resource class", f"/resource_classes/{name}", name)

    def _delete(self, kind: str, path: str, name: str) -> None:
        if problem := name_problem(name, kind):
            raise ValueError(problem)  # the path of another resource has such a name
        with suppress(NotFound):
            self.api.request("DELETE", path)

    def _root(self, root: str, provider: str | None = None) -> _Tree:
        """Return a root.  Its tree is read before its next use if it lacks ``provider`` (UUID).

        Absence is no verified view: another service may create the provider at any time.
        """
        uuid = canonical_uuid(root, "root")
        if uuid not in self._roots:
            inside = self._owns is None
            tracked = _Tree(uuid, self.api, self._times, self._bulk, self._store, inside=inside)
            tracked.load_saved_view()
            learned = [other.view.names for other in list(self._roots.values())]
            if not tracked.view.generations and learned:
                tracked.view = replace(tracked.view, names=learned[-1])
            self._roots.setdefault(uuid, tracked)  # another thread may have been faster
        tracked = self._roots[uuid]
        if provider and canonical_uuid(provider, "provider") not in tracked.view.snapshot:
            with tracked.lock:
                tracked.view = tracked.view.stale()
        return tracked

    def _attempt(
        self, tracked: _Tree, write: Callable[[Counting], Result], request_id: str | None
    ) -> Result:
        """Read the tree if that is due, and write; raise what that raises."""

        def read_first(api: Counting) -> Result:
            tracked.refresh(api, api.now)
            return write(api)

        tagged = self.api.tagged(request_id) if isinstance(self.api, PlacementAPI) else None
        with tracked.lock:
            tracked.refusals = Refusals()  # the caller decides when to retry
            result, api = tracked.attempt(self._clock(), read_first, tagged, urgent=True)
        if isinstance(result, Exception):
            raise result
        result = replace(result, calls=api.calls, done=tuple(api.done))
        if self._strict:
            for err in (*result.failed.values(), *map(NotSent, map(str, result.problems))):
                raise err
        return result

    def _write(
        self,
        tracked: _Tree,
        tree: ProviderTree,
        new: Snapshot,
        api: Counting,
        after: Allocations | None = None,
    ) -> Result:
        """Write ``new``, an edit by ``tree``, with the allocations ``after`` a reshape.

        :raises reportclient.errors.NotOwned: what differs from the view is not the caller's.
        :raises reportclient.errors.PlacementError: the plan ended early, or is wrong.
        """
        before, leaving = tracked.view, tracked.leaving
        moved, in_use = None, frozenset[str]()
        new = before.with_drained(new, classes_set(tree.claims))
        if after is None:
            new = _without_freed(before, tree, new, leaving, api)
        elif tracked.held is None:
            text = "call Client.allocations() for this root before each update with allocations"
            raise ValueError(text)
        else:
            moved, in_use = tracked.held.moved(after, before.snapshot, new)
        may_change = self._owns or (lambda provider: provider.uuid not in before.sharing)
        for uuid in new.changed_since(before.snapshot):
            known = before.snapshot.get(uuid)
            if known and known != new.get(uuid) and not may_change(known):
                raise NotOwned(f"provider {known.name} ({uuid}) is owned by another service")
            if self._owns is None and uuid in new and new.root_of(uuid) in before.sharing:
                raise NotOwned(f"the parent of provider {uuid} is owned by another service")
        owned, names = tracked.uuid, before.names
        plan = diff(before.snapshot, new, moved, names=names, in_use=in_use, owned=owned)
        if wrong := tuple(problem for problem in plan.problems if problem.wrong):
            raise Wrong("; ".join(map(str, wrong)), problems=wrong)
        outcome = tracked.write(plan, api)
        if outcome.stopped_by is not None:
            raise outcome.stopped_by
        view, refusals = tracked.view, tracked.refusals
        held, refused = refusals.draining(), refusals.by_subject
        leaving |= {s for s in held if isinstance(refused[s].operation, DeleteProvider)}
        leaving &= view.snapshot.providers.keys()
        causes = refusals.errors(outcome.failed)
        waiting = {k: e for k, e in causes.items() if k in held and isinstance(e, InUse)}
        failed = {key: err for key, err in causes.items() if key not in waiting}
        now = {uuid: view.snapshot.get(uuid) for uuid in view.drained}
        draining = frozenset(still_drained(view.drained, now))
        for uuid in leaving | draining:
            waiting.setdefault(uuid, InUse(f"provider {uuid} was in use before: still draining"))
        return Result(view, (), failed, waiting, draining, plan.problems)


def _without_freed(
    view: View, tree: ProviderTree, new: Snapshot, leaving: set[str], api: API
) -> Snapshot:
    """Return ``new`` without what earlier updates could not remove and nobody uses any more.

    Sends 1 GET for each provider with something that is draining.  What ``tree`` sets again is not
    removed; ``leaving`` are the providers to be removed, and loses those that it sets or places.
    """
    set_now = classes_set(tree.claims)
    waiting = leaving | view.drained.keys()
    for provider in reversed([each for each in new.walk() if each.uuid in waiting]):
        uuid, inventory = provider.uuid, provider.inventory
        drained = view.drained.get(uuid, {}).keys() & inventory.keys()
        kept = {n: record for n, record in inventory.items() if n not in drained}
        kept |= {n: inventory[n] for n in drained if (uuid, n) in set_now}
        if kept or any(uuid in each.placed for each in tree.claims.values()):
            leaving.discard(uuid)
        goes = uuid in leaving and not list(new.children(uuid))
        removal = DeleteProvider(uuid) if goes else SetInventory(uuid, kept)
        if (goes or len(kept) < len(inventory)) and not users_by_class(removal, api):
            new = new.with_changes({uuid: None if goes else replace(provider, inventory=kept)})
    return new


def rebased(base: Snapshot, desired: Snapshot, now: Snapshot) -> Snapshot:
    """Return ``now`` with the changes from ``base`` to ``desired``.

    A changed provider that is not in ``now`` any more is created again.  A provider that
    ``desired`` removed stays if ``now`` has another provider below it that was not removed.

    :raises ValueError: the changes conflict: two providers with one name, or moved below
        each other or below one that is not in ``now`` any more.
    """
    if now == base:
        return desired
    uuids = list(desired.changed_since(base))
    changes: dict[str, Provider | None] = {
        uuid: _merged(base.get(uuid), desired.providers[uuid], now.get(uuid))
        for uuid in uuids
        if uuid in desired
    }
    merged = {**now.providers, **changes}
    removed = {uuid for uuid in uuids if uuid not in desired}
    above = [each.parent_uuid for uuid, each in merged.items() if each and uuid not in removed]
    for parent in above:  # the list grows in the loop
        if parent in removed and (provider := merged.get(parent)) is not None:
            removed.remove(parent)
            above.append(provider.parent_uuid)
    changes.update(dict.fromkeys(removed))
    Snapshot.build(each for uuid, each in merged.items() if each and uuid not in removed)
    return now.with_changes(changes)


def _merged(base: Provider | None, desired: Provider, now: Provider | None) -> Provider:
    """Return ``now`` with what differs between ``base`` and ``desired``."""
    if now is None:
        return desired
    old, new = base or Provider(desired.uuid, ""), desired
    inventory = {
        n: r for n, r in now.inventory.items() if n in new.inventory or n not in old.inventory
    }
    inventory |= {n: r for n, r in new.inventory.items() if r != old.inventory.get(n)}
    return Provider(
        new.uuid,
        now.name if new.name == old.name else new.name,
        now.parent_uuid if base and new.parent_uuid == base.parent_uuid else new.parent_uuid,
        inventory,
        now.traits - (old.traits - new.traits) | (new.traits - old.traits),
        now.aggregates - (old.aggregates - new.aggregates) | (new.aggregates - old.aggregates),
    )
