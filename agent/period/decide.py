"""From what Placement has and what the drivers say to a plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from agent.period.ask import Wish, ask_drivers
from agent.period.attach import Restraint
from agent.period.heard import HeardTree
from agent.period.keep import keep_strangers, open_again
from agent.period.leaving import Leaving
from agent.period.merge import Merge
from agent.period.parts import Parts
from agent.period.rules import Rules
from agent.period.traits import AgentTraits, add_agent_traits, agent_traits, own_marks
from agent.provider_config.overlay import Laid, Overlay
from drivers.errors import DriverError, ReshapeFailed
from drivers.loader import LoadedDriver
from reportclient.diff import diff
from reportclient.model import Allocations
from reportclient.plan import Plan, Problem
from reportclient.provider_tree import ProviderTree
from reportclient.reshape import (
    Affected,
    AllocationsBroken,
    edited_providers,
    moved_allocations,
    used_providers,
)
from reportclient.view import View


@dataclass(frozen=True, slots=True)
class Decision:
    """What one look led to: the drivers' wish and the plan that would fulfil it.

    ``parts`` is which driver has what afterwards, ``laid`` what provider files add.
    """

    wish: Wish
    plan: Plan
    parts: Parts = field(default_factory=Parts)
    restraint: Restraint | None = None
    """Where the root is another service's."""
    laid: Laid = field(default_factory=Laid)


@dataclass(frozen=True, slots=True)
class _Seen:
    """``view`` is what the drivers are shown: ``placement`` without what files added."""

    placement: View
    view: View
    overlay: Overlay


@dataclass(frozen=True, slots=True)
class Decider:
    """Decides for one root; knows nothing but its identity, its drivers and the rules."""

    uuid: str
    node: str
    drivers: Sequence[LoadedDriver]
    rules: Rules
    parts: Parts = field(default_factory=Parts)
    mark: str = ""
    overlay: Overlay = field(default_factory=Overlay)
    outside_for: Mapping[str, float] = field(default_factory=dict)
    """For how long children that leave another service's root are outside its tree."""

    @property
    def is_shared(self) -> bool:
        """Whether it matters who says what: several drivers speak, or one that did is gone."""
        return len(self.drivers) > 1 or bool(self.parts) or self.rules.attached

    def decide(
        self,
        placement: View,
        disabled: bool | None,
        allocations: Callable[[], Allocations] | None,
    ) -> Decision:
        """Ask the drivers and plan.

        ``allocations`` reads them, should a driver need a reshape; ``None`` means that
        none may be done now.
        """
        overlay = self.overlay.beside(self.uuid) if self.rules.attached else self.overlay
        shown = self._leaving(placement).shown() if self.rules.attached else placement
        view = overlay.under(shown)  # what files add is not the drivers' business
        merge = (lambda: self._merge(view)) if self.is_shared else None
        fresh = lambda: self._fresh_tree(view)  # noqa: E731
        wish = ask_drivers(self.drivers, fresh, self.node, allocations, merge)
        if len(wish.errors) == len(self.drivers) and self.uuid not in view.snapshot:
            return Decision(wish, Plan(), self.parts)  # nobody could say anything of a new host
        moved: Allocations | None = None
        if wish.allocations is not None and wish.allocations_before is not None:
            try:
                affected = Affected.between(view.snapshot, wish.tree.freeze())
                moved = moved_allocations(wish.allocations_before, wish.allocations, affected)
                if self.rules.attached:
                    edited = edited_providers(wish.allocations_before, moved)
                    restraint = Restraint(self.uuid, view, self.parts)
                    restraint.refuse_to_move(affected.providers() | edited)
            except AllocationsBroken as err:
                moved = None
                wish = wish.without_reshape(ReshapeFailed(f"node {self.node}: {err}"))
        return self._decision(_Seen(placement, view, overlay), wish, moved, disabled)

    def _decision(
        self, seen: _Seen, wish: Wish, moved: Allocations | None, disabled: bool | None
    ) -> Decision:
        tree = wish.tree
        if wish.complete:
            open_again(tree, seen.view)
        kept = (*wish.problems, *keep_strangers(tree, seen.view))
        parts = wish.parts_after(tree.freeze(), self.parts)
        if self.rules.attached:
            return self._beside_another_owner(seen, wish, moved, kept, parts)
        before, strangers = seen.placement.snapshot, self._strangers(seen.placement)
        laid = seen.overlay.lay(tree, self.uuid, before, strangers)
        add_agent_traits(tree, self.uuid, before, self._traits(disabled))
        plan = self._diff(seen.placement, wish, moved, (*kept, *laid.problems))
        return Decision(wish, plan, parts, laid=laid)

    def _beside_another_owner(
        self,
        seen: _Seen,
        wish: Wish,
        moved: Allocations | None,
        kept: tuple[Problem, ...],
        parts: Parts,
    ) -> Decision:
        restraint = Restraint(self.uuid, seen.view, parts)
        tree, before = wish.tree, seen.placement.snapshot
        try:
            problems = (*kept, *restraint.undo(tree))
            self._leaving(seen.placement).settle(tree)
        except ValueError as err:
            # Such as a name taken from a provider that is not ours: nothing is done at all.
            refused = DriverError(
                f"what it did to another owner's providers can't be undone: {err}"
            )
            errors = {loaded.name: refused for loaded in self.drivers} | dict(wish.errors)
            return Decision(replace(wish, errors=errors), Plan(), self.parts)
        strangers = self._strangers(seen.placement) | restraint.others()
        laid = seen.overlay.lay(tree, self.uuid, before, strangers)
        plan = self._diff(seen.placement, wish, moved, (*problems, *laid.problems))
        return Decision(wish, plan, restraint.parts_after(), restraint, laid)

    def _leaving(self, placement: View) -> Leaving:
        return Leaving(self.uuid, placement, self.rules.child_wait, self.outside_for)

    def _diff(
        self,
        view: View,
        wish: Wish,
        moved: Allocations | None,
        kept: tuple[Problem, ...],
    ) -> Plan:
        plan = diff(
            view.snapshot,
            wish.tree.freeze(),
            moved,
            known=view.known,
            strangers=self._strangers(view),
            in_use=used_providers(wish.allocations or {}),
        )
        return replace(plan, problems=(*plan.problems, *kept)) if kept else plan

    def _merge(self, view: View) -> Merge:
        order = tuple(loaded.name for loaded in self.drivers)
        return Merge(order, self.parts, view.snapshot, view.made, self.rules.attached)

    def _fresh_tree(self, view: View) -> ProviderTree:
        tree = HeardTree(view.snapshot, view.generations) if self.is_shared else view.edit()
        if not tree.exists(self.uuid):
            tree.new_root(self.node, self.uuid)
        tree.rename(self.uuid, self.node)
        return tree

    def _traits(self, disabled: bool | None) -> AgentTraits:
        capabilities = [loaded.driver.capabilities for loaded in self.drivers]
        return agent_traits(capabilities, disabled, self.rules.owner_traits, self.mark)

    def _strangers(self, view: View) -> frozenset[str]:
        """Sharing providers that no agent of ours made."""
        providers, marks = view.snapshot.providers, own_marks(self.rules.owner_traits)
        return frozenset(uuid for uuid in view.strangers if not marks & providers[uuid].traits)
