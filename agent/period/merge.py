"""Several drivers on one tree: what one of them reports, another can't take away.  Pure.

The drivers are asked in their order, each on the tree as the ones before it left it.
After each, whatever it did to another one's part is undone.  Where two say a resource
class of one provider differently, the first in the order counts.  What no driver ever
claimed is taken away only if all of them have answered: it may belong to one that can't.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.period.heard import HeardTree
from agent.period.parts import Claim, Claims, Kind, Parts, is_there
from drivers.errors import DriverError
from reportclient.model import Inventory
from reportclient.plan import Problem
from reportclient.provider_tree import ProviderData, ProviderTree, own_uuid
from reportclient.snapshot import Snapshot

InventoryDict = Mapping[str, Mapping[str, Any]]


@dataclass(slots=True)
class Merge:
    """One round of questions: ``order`` are the drivers, ``parts`` what they had before.

    ``base`` is what Placement has; ``made`` are the providers in it that this agent made.
    """

    order: tuple[str, ...]
    parts: Parts
    base: Snapshot
    made: frozenset[str] = frozenset()
    attached: bool = False
    """The root is another service's: also of a single driver it matters what it says."""
    problems: list[Problem] = field(default_factory=list)
    _won: dict[Claim, str] = field(default_factory=dict)
    """Whose an exclusive claim is in this round."""
    _said: dict[str, Claims] = field(default_factory=dict)
    _let_go: set[tuple[str, Claim]] = field(default_factory=set)
    _left_out: set[Claim] = field(default_factory=set)
    """Classes of nobody that some driver left out."""

    def hidden_from(self, name: str) -> Claims:
        """Resource classes that other drivers report."""
        known = frozenset[Claim](self._won).union(*self.parts.of.values())
        return frozenset(c for c in known if c.kind == "class" and self._another(name, c))

    def take(self, name: str, shown: ProviderTree, answer: HeardTree) -> HeardTree:
        """The driver's answer with all undone that is not for it to do.

        :raises DriverError: it can't be undone, so that the answer can't be used.
        """
        heard, answer.hidden = frozenset(answer.heard), frozenset()
        try:
            self._places_back(name, shown, answer)
            self._providers_back(name, shown, answer)
        except ValueError as err:
            raise DriverError(
                f"it changed what another driver reports, which can't be undone: {err}"
            ) from err
        self._said[name] = heard
        for uuid in answer.touched():
            if shown.exists(uuid):
                self._contents_back(name, shown.data(uuid), answer)
        self._claim(name)
        return answer

    def finish(self, tree: ProviderTree, *, complete: bool) -> None:
        """After the last one; ``complete``: all have answered."""
        if complete:
            self._drop_what_all_left_out(tree)
            self._take_departed_away(tree)
        else:
            self._unclaimed_back(tree)

    def parts_after(self, new: Snapshot) -> Parts:
        """What the drivers have from now on; the same object if that is what they had."""
        of = {name: self._part_after(name, new) for name in (*self.order, *self._departed())}
        of = {name: claims for name, claims in of.items() if claims}
        if not self.attached and of.keys() <= {*self.order[:1]} and len(self.order) == 1:
            of = {}  # all is its own: nothing needs to be told apart
        if of == self.parts.of:
            return self.parts
        return Parts(of, self.parts.added, self.parts.given_up)

    def _part_after(self, name: str, new: Snapshot) -> Claims:
        """A departed driver's claims last until Placement has acknowledged that they are gone."""
        claims = self.parts.of.get(name, frozenset())
        if name not in self.order:
            return frozenset(
                c for c in claims if is_there(c, self.base) and not self._is_claimed(c)
            )
        claims |= self._said.get(name, frozenset())
        return frozenset(claim for claim in claims if self._keeps(name, claim, new))

    def _keeps(self, name: str, claim: Claim, new: Snapshot) -> bool:
        if claim.exclusive:
            there = is_there(claim, new) or is_there(claim, self.base)
            return there and self._another(name, claim) is None
        let_go = (name, claim) in self._let_go and claim not in self._said.get(name, ())
        return is_there(claim, new) and not let_go

    def _departed(self) -> list[str]:
        return [name for name in self.parts.of if name not in self.order]

    # -- whose it is

    def _owner(self, claim: Claim) -> str | None:
        if claim in self._won:
            return self._won[claim]
        return next(iter(self._holders(claim)), None)

    def _holders(self, claim: Claim) -> list[str]:
        before = self.parts.holders(claim, self.order)
        return [name for name in before if (name, claim) not in self._let_go]

    def _another(self, name: str, claim: Claim) -> str | None:
        """The other driver that has it."""
        owner = self._owner(claim)
        return None if owner == name else owner

    def _is_said_by_another(self, name: str, claim: Claim) -> bool:
        said = any(claim in claims for who, claims in self._said.items() if who != name)
        return said or any(who != name for who in self._holders(claim))

    def _claim(self, name: str) -> None:
        for claim in self._said[name]:
            if claim.exclusive and self._owner(claim) in (None, name):
                self._won[claim] = name

    # -- providers

    def _places_back(self, name: str, shown: ProviderTree, answer: HeardTree) -> None:
        for uuid in answer.touched():
            owner = self._another(name, Claim("provider", uuid))
            if owner is None or not shown.exists(uuid):
                continue
            before, after = shown.data(uuid), answer.data(uuid)
            if (before.name, before.parent_uuid) != (after.name, after.parent_uuid):
                answer.rename(uuid, before.name)
                answer.move(uuid, before.parent_uuid)
                self._problem(
                    before, f"driver {name} renamed or moved it; driver {owner} reports it"
                )

    def _providers_back(self, name: str, shown: ProviderTree, answer: HeardTree) -> None:
        lost = [uuid for uuid in answer.removed() if shown.exists(uuid)]
        for uuid in lost:
            owner = self._another(name, Claim("provider", uuid))
            if owner is None:
                self._let_go.add((name, Claim("provider", uuid)))
                continue
            self._restore(uuid, name, shown, answer)
            above = shown.data(uuid).parent_uuid
            if above in lost and self._another(name, Claim("provider", above)) is None:
                text = f"is below what driver {name} took away; driver {owner} reports it"
                self._problem(shown.data(uuid), f"{text}: both are kept")

    def _restore(self, uuid: str, name: str, shown: ProviderTree, answer: HeardTree) -> None:
        """With what it is below; that comes back empty if it was the driver's own to remove."""
        data = shown.data(uuid)
        if answer.exists(uuid):
            if answer.data(uuid).inventory == {}:
                answer.update_inventory(uuid, data.inventory)
            return
        if data.parent_uuid is None:
            answer.new_root(data.name, uuid)
        else:
            if not answer.exists(data.parent_uuid):
                self._restore(data.parent_uuid, name, shown, answer)
            answer.new_child(data.name, data.parent_uuid, uuid)
        answer.update_traits(uuid, data.traits)
        answer.update_aggregates(uuid, data.aggregates)
        if self._another(name, Claim("provider", uuid)) is not None:
            answer.update_inventory(uuid, data.inventory)

    # -- what providers have

    def _contents_back(self, name: str, shown: ProviderData, answer: HeardTree) -> None:
        after = answer.data(shown.uuid)
        inventory = self._inventory(name, shown, after.inventory)
        if inventory != after.inventory:
            answer.update_inventory(shown.uuid, inventory)
        traits = self._kept(name, "trait", shown.uuid, shown.traits - after.traits)
        if traits:
            answer.add_traits(shown.uuid, *traits)
        aggregates = self._kept(name, "aggregate", shown.uuid, shown.aggregates - after.aggregates)
        if aggregates:
            answer.add_aggregates(shown.uuid, *aggregates)

    def _inventory(
        self, name: str, shown: ProviderData, wished: InventoryDict
    ) -> dict[str, Mapping[str, Any]]:
        merged = {key: self._record(name, shown, key, record) for key, record in wished.items()}
        for key in shown.inventory.keys() - wished.keys():
            claim = Claim("class", shown.uuid, key)
            owner = self._owner(claim)
            if owner == name:
                self._let_go.add((name, claim))
                continue
            if owner is None:
                self._left_out.add(claim)
            merged[key] = shown.inventory[key]
        return merged

    def _record(
        self, name: str, shown: ProviderData, key: str, record: Mapping[str, Any]
    ) -> Mapping[str, Any]:
        """One class as it is to be: the driver's own word, or the one of who has it."""
        claim = Claim("class", shown.uuid, key)
        owner, there = self._another(name, claim), shown.inventory.get(key)
        if owner is None or claim not in self._said[name]:
            return record
        is_before = self.order.index(name) < self.order.index(owner)
        if there is None or (is_before and claim not in self._won):
            self._won[claim] = name
            return record
        if _differ(there, record):
            text = f"{key} is reported by driver {owner}, and differently by driver {name}"
            self._problem(shown, f"{text}: {owner} counts, being the first in compute_driver")
        return there

    def _kept(self, name: str, kind: Kind, uuid: str, lost: Iterable[str]) -> list[str]:
        """Those that another driver said; the rest is let go."""
        claims = [Claim(kind, uuid, each) for each in lost]
        self._let_go.update((name, claim) for claim in claims)
        return [claim.name for claim in claims if self._is_said_by_another(name, claim)]

    # -- when all were asked

    def _drop_what_all_left_out(self, tree: ProviderTree) -> None:
        for _, uuid, key in (claim for claim in self._left_out if self._owner(claim) is None):
            if tree.exists(uuid):
                inventory = tree.data(uuid).inventory
                inventory.pop(key, None)
                tree.update_inventory(uuid, inventory)

    def _unclaimed_back(self, tree: ProviderTree) -> None:
        for uuid in [each for each in self.base.providers if not tree.exists(each)]:
            if not self.parts.is_anybodys(Claim("provider", uuid)):
                tree.put_back(uuid)
        for uuid in tree.touched():
            known = self.base.get(uuid)
            if known is not None:
                wished = tree.data(uuid)
                tree.add_traits(uuid, *self._unclaimed("trait", uuid, known.traits - wished.traits))
                lost = known.aggregates - wished.aggregates
                tree.add_aggregates(uuid, *self._unclaimed("aggregate", uuid, lost))

    def _unclaimed(self, kind: Kind, uuid: str, names: Iterable[str]) -> Iterator[str]:
        return (name for name in names if not self.parts.is_anybodys(Claim(kind, uuid, name)))

    def _take_departed_away(self, tree: ProviderTree) -> None:
        """What a driver reported that is not configured any more."""
        for claim in frozenset[Claim]().union(*map(self.parts.of.__getitem__, self._departed())):
            if tree.exists(claim.uuid) and not self._is_claimed(claim):
                self._take_away(claim, tree)

    def _is_claimed(self, claim: Claim) -> bool:
        said = any(claim in claims for claims in self._said.values())
        return said or self._owner(claim) is not None

    def _take_away(self, claim: Claim, tree: ProviderTree) -> None:
        match claim.kind:
            case "provider":
                if self._is_ours_alone(claim.uuid, tree):
                    tree.remove(claim.uuid)
            case "class":
                inventory = tree.data(claim.uuid).inventory
                inventory.pop(claim.name, None)
                tree.update_inventory(claim.uuid, inventory)
            case "trait":
                tree.remove_traits(claim.uuid, claim.name)
            case _:
                tree.remove_aggregates(claim.uuid, claim.name)

    def _is_ours_alone(self, uuid: str, tree: ProviderTree) -> bool:
        """Whether this agent made it, and nothing below it is another driver's or a stranger's."""
        below = [tree.data(each) for each in tree.get_provider_uuids(uuid)]
        root = tree.get_provider_uuids_in_tree(uuid)[0]
        return root != uuid and all(
            (data.uuid in self.made or data.uuid == own_uuid(root, data.name))
            and not self._is_claimed(Claim("provider", data.uuid))
            for data in below
        )

    def _problem(self, data: ProviderData, text: str) -> None:
        self.problems.append(Problem(data.uuid, data.name, text))


def _differ(there: Mapping[str, Any], said: Mapping[str, Any]) -> bool:
    """Whether a record says anything else than the one that is there."""
    known = Inventory.from_dict(there).over(None)
    return Inventory.from_dict(said).over(known) != known
