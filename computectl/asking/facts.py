"""Facts in Placement that bear on a constraint, a sentence each; a few calls for each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from computectl.asking.constraints import (
    Aspect,
    Constraint,
    Question,
    group_having,
    request_for,
    with_amount,
    with_amount_one,
)
from computectl.shared.screen import counted
from reportclient.asking import QueryOptions, allocation_candidates, resource_providers
from reportclient.candidates import (
    ListedProvider,
    ProviderQuery,
    ProviderSummary,
    RequestGroup,
)
from reportclient.http import API
from reportclient.plain_text import plain
from reportclient.query.terms import resources_value
from reportclient.reader import part_of, provider_by_uuid

LOOKED_AT = 1000
"""Candidates in each answer: enough to name what is left out, little enough to be read."""
NAMED = 3
"""Providers that a sentence names; of more it tells how many."""
_NOT_TOGETHER = ", but not together with the rest."
_ALL = QueryOptions(include_disabled=True, several=True)


@dataclass(slots=True)
class Facts:
    """Looked up once each."""

    api: API
    question: Question
    _names: dict[str, str] = field(default_factory=dict)
    _amounts: dict[Constraint, str] = field(default_factory=dict)

    def sentence_about(self, constraint: Constraint) -> str:  # noqa: PLR0911  one return a kind
        """Return a sentence on the constraint's subject in Placement; empty if there is none."""
        match constraint.aspect:
            case Aspect.ENABLED:
                return "`computectl service enable` lets a host take guests again."
            case Aspect.REQUIRED | Aspect.FORBIDDEN:
                return self._traits(constraint)
            case Aspect.ROOT_REQUIRED | Aspect.ROOT_FORBIDDEN:
                return self._traits(constraint, roots=True)
            case Aspect.MEMBER_OF | Aspect.NOT_MEMBER_OF:
                return self._members(constraint)
            case Aspect.IN_TREE:
                return self._tree(constraint.terms[0])
            case Aspect.SAME_SUBTREE:
                return "No provider of one of these groups stands above those of the others."
            case Aspect.ISOLATE:
                return "There are too few providers for each group to have one of its own."
            case Aspect.RESOURCES:
                return self._amount(constraint)

    def is_short(self, constraint: Constraint) -> bool:
        """Whether no provider can give the amount where all else is met."""
        return not self._amount(constraint).endswith(_NOT_TOGETHER)

    def tree_of(self, uuid: str) -> str:
        """The name of its root, or the UUID."""
        listed = provider_by_uuid(uuid, self.api)
        return uuid if listed is None else self._name(listed["root_provider_uuid"])

    def named(self, uuids: Iterable[str]) -> str:
        """``a, b, c and 5 more``."""
        found = list(uuids)
        names = sorted(self._name(uuid) for uuid in found[:NAMED])
        more = len(found) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "")

    def _traits(self, constraint: Constraint, *, roots: bool = False) -> str:
        traits = constraint.terms
        where = group_having(constraint)
        found = self._find(where)
        what = " or ".join(traits)
        if not found:
            return f"No provider has {what}."
        said = f"{_have(len(found), what)} ({self.named(one.uuid for one in found)})"
        if roots and not any(one.uuid == one.root_uuid for one in found):
            return f"{said}, but no root: it has to be on the host itself."
        groups = self.question.request.by_suffix()
        wanted = groups.get(constraint.suffix or "", RequestGroup()).resources
        given = (
            list(_by_provider(constraint, wanted)) if constraint.aspect is Aspect.REQUIRED else []
        )
        if given and not any(self._find(replace(where, resources=each)) for each in given):
            return f"{said}, but none that gives {' or '.join(map(resources_value, given))}."
        return f"{said}."

    def _members(self, constraint: Constraint) -> str:
        found = self._find(group_having(constraint))
        if not found:
            return f"No provider is in {'it' if len(constraint.terms) == 1 else 'any of them'}."
        said = f"{counted(len(found), 'provider')} in it: {self.named(o.uuid for o in found)}."
        if constraint.suffix:
            return f"{said} In a group with a suffix an aggregate of the host does not count."
        return said

    def _tree(self, uuid: str) -> str:
        name = self.tree_of(uuid)
        if name == uuid:
            return "Placement has no provider with this UUID."
        return f"It is the tree of {name}."

    def _amount(self, constraint: Constraint) -> str:
        if constraint not in self._amounts:
            self._amounts[constraint] = self._most(constraint)
        return self._amounts[constraint]

    def _most(self, constraint: Constraint) -> str:
        """Among those that could be taken with all else that is asked for, or else anywhere."""
        [name] = constraint.terms
        least = with_amount_one(constraint)
        having = self._having(with_amount(self.question, least), name)
        elsewhere = not having
        having = having or self._having(request_for(least), name)
        if not having:
            return (
                f"No provider can give even 1 of {name}: none has any left, or it is given "
                "by larger units (min_unit, step_size)."
            )
        having.sort(key=lambda summary: summary.uuid)
        best = max(having, key=lambda summary: summary.free(name))
        free = best.free(name)
        if elsewhere and free >= constraint.amount:
            return f"{self._name(best.uuid)} has {free} free{_NOT_TOGETHER}"
        if free < constraint.amount:
            used = sum(summary.used[name] for summary in having)
            taken = f" ({used} are in use on {counted(len(having), 'provider')})" if used else ""
            return f"The most that one provider has free is {free}, {self._name(best.uuid)}{taken}."
        return self._units(best, constraint)

    def _having(self, question: Question, name: str) -> list[ProviderSummary]:
        """Providers that candidates take it from, those that share it with hosts included."""
        how = QueryOptions(question.include_disabled, several=True)
        request = replace(question.request, limit=LOOKED_AT)
        answer = allocation_candidates(request, self.api, how)
        taken = dict.fromkeys(
            uuid
            for candidate in answer.allocation_requests
            for uuid, resources in candidate.allocations.items()
            if name in resources
        )
        return [answer.provider_summaries[uuid] for uuid in taken]

    def _units(self, best: ProviderSummary, constraint: Constraint) -> str:
        [name] = constraint.terms
        path = f"/resource_providers/{best.uuid}/inventories"
        record = part_of(path, "inventories", self.api).get(name)
        free = f"{self._name(best.uuid)} has {best.free(name)} free"
        if record is None or _fits(record, constraint.amount):
            return free + _NOT_TOGETHER
        units = ", ".join(f"{key} {record[key]}" for key in ("min_unit", "max_unit", "step_size"))
        return f"{free}, but gives it by {units}."

    def _find(self, where: RequestGroup) -> tuple[ListedProvider, ...]:
        found = resource_providers(ProviderQuery(where=where), self.api, _ALL).providers
        self._names.update({one.uuid: plain(one.name) for one in found})
        return found

    def _name(self, uuid: str) -> str:
        if uuid not in self._names:
            listed = provider_by_uuid(uuid, self.api)
            self._names[uuid] = uuid if listed is None else plain(listed["name"])
        return self._names[uuid]


def _by_provider(constraint: Constraint, wanted: Mapping[str, int]) -> Iterable[Mapping[str, int]]:
    """Return the amounts that one provider has to give: a suffixed group's, else a class each."""
    if not wanted or constraint.suffix:
        return [wanted] if wanted else []
    return [{name: amount} for name, amount in sorted(wanted.items())]


def _have(number: int, what: str) -> str:
    return f"{counted(number, 'provider')} {'has' if number == 1 else 'have'} {what}"


def _fits(record: dict[str, int], amount: int) -> bool:
    low, high, step = (record[key] for key in ("min_unit", "max_unit", "step_size"))
    return low <= amount <= high and amount % step == 0
