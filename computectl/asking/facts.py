"""Sentences on what Placement has of a constraint's subject; a few GETs each."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from computectl.asking.constraints import (
    Aspect,
    Constraint,
    Question,
    group_having,
    request_for,
    with_amount,
)
from computectl.shared.screen import counted
from reportclient.candidates import (
    AllocationCandidates,
    ListedProvider,
    ProviderQuery,
    ProviderSummary,
    RequestGroup,
    to_query_string,
)
from reportclient.candidates.asking import QueryOptions, allocation_candidates, resource_providers
from reportclient.candidates.request import UNSUFFIXED, resources_value
from reportclient.http import API
from reportclient.plain_text import plain
from reportclient.reader import part_of, provider_by_uuid

LOOKED_AT = 1000
"""Candidates requested in each query."""
NAMED = 3
"""Providers that a sentence names; of more, the number is given."""
_OF_HOSTS = ("VCPU", "PCPU", "MEMORY_MB")
"""Resource classes that find hosts."""
_MULTIPLES = (2, 4, 8, 16, 60, 64, 100, 256, 1000, 1024)
"""Amounts that are multiples of the units that providers usually have."""
_NOT_TOGETHER = ", but not together with the rest."
_ALL = QueryOptions(include_disabled=True)


@dataclass(slots=True)
class Facts:
    """Facts about a question without a limit and its constraints; each is read once."""

    api: API
    question: Question
    calls: int = 0
    """Queries for candidates."""
    _answers: dict[tuple[str, bool], tuple[int, AllocationCandidates]] = field(default_factory=dict)
    """By query and ``include_disabled``: the requested limit, and the answer."""
    _names: dict[str, str] = field(default_factory=dict)
    _amounts: dict[Constraint, str] = field(default_factory=dict)
    _easier: dict[Constraint, Constraint] = field(default_factory=dict)

    def sentence_about(self, constraint: Constraint) -> str:  # noqa: PLR0911  one return a kind
        """Return a sentence on what Placement has of the constraint's subject."""
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
                [uuid] = constraint.terms
                name = self.tree_of(uuid)
                if name == uuid:
                    return "Placement has no provider with this UUID."
                return f"It is the tree of {name}."
            case Aspect.SAME_SUBTREE:
                return "No provider of one of these groups is an ancestor of those of the others."
            case Aspect.ISOLATE:
                return "There are too few providers to give each group its own."
            case Aspect.RESOURCES:
                return self._amount(constraint)

    def is_short(self, constraint: Constraint) -> bool:
        """Whether no provider has the amount free while the other constraints are met."""
        return not self._amount(constraint).endswith(_NOT_TOGETHER)

    def tree_of(self, uuid: str) -> str:
        """Return the name of a provider's root; the given UUID if there is no such provider."""
        listed = provider_by_uuid(uuid, self.api)
        return uuid if listed is None else self._name(listed["root_provider_uuid"])

    def named(self, uuids: Iterable[str]) -> str:
        """Return the names of providers as ``a, b, c and 5 more``."""
        every = list(uuids)
        names = sorted(self._name(uuid) for uuid in every[:NAMED])
        more = len(every) - len(names)
        return ", ".join(names) + (f" and {more} more" if more else "")

    def _traits(self, constraint: Constraint, *, roots: bool = False) -> str:
        traits = constraint.terms
        where = group_having(constraint)
        providers = self.find(where)
        what = " or ".join(traits)
        if not providers:
            return f"No provider has {what}."
        names = self.named(provider.uuid for provider in providers)
        have = "has" if len(providers) == 1 else "have"
        sentence = f"{counted(len(providers), 'provider')} {have} {what} ({names})"
        if roots and not any(provider.uuid == provider.root_uuid for provider in providers):
            return f"{sentence}, but no root provider has it."
        groups = self.question.request.by_suffix()
        wanted = groups.get(constraint.suffix or "", RequestGroup()).resources
        # A group with a suffix is met by one provider, others may be by one for each amount.
        given = [wanted] if constraint.suffix else [{each: wanted[each]} for each in sorted(wanted)]
        if constraint.aspect is not Aspect.REQUIRED or not wanted:
            given = []
        if given and not any(self.find(replace(where, resources=each)) for each in given):
            return f"{sentence}, but none that gives {' or '.join(map(resources_value, given))}."
        return f"{sentence}."

    def _members(self, constraint: Constraint) -> str:
        providers = self.find(group_having(constraint))
        if not providers:
            return f"No provider is in {'it' if len(constraint.terms) == 1 else 'any of them'}."
        names = self.named(provider.uuid for provider in providers)
        sentence = f"{counted(len(providers), 'provider')} in it: {names}."
        if constraint.suffix:
            return f"{sentence} In a group with a suffix an aggregate of the host does not count."
        return sentence

    def _amount(self, constraint: Constraint) -> str:
        if constraint not in self._amounts:
            self._amounts[constraint] = self._most(constraint)
        return self._amounts[constraint]

    def _most(self, constraint: Constraint) -> str:
        """Return a sentence on the largest free amount; prefer providers that meet the rest."""
        [name] = constraint.terms
        easier = self.easier(constraint)
        having = self._having(with_amount(self.question, easier), name)
        having = having or self._having(request_for(easier), name) or self._holders(name)
        if not having:
            return f"No provider can give even 1 of {name}: it is used up, or there is none."
        having.sort(key=lambda summary: summary.uuid)
        limited = self._limited_by_units(constraint, having)
        best = max(limited or having, key=lambda summary: summary.free(name))
        free = best.free(name)
        if free < constraint.amount:
            used = sum(summary.used[name] for summary in having)
            taken = f" ({used} are in use on {counted(len(having), 'provider')})" if used else ""
            return f"The most that one provider has free is {free}, {self._name(best.uuid)}{taken}."
        units, amount = self._units(best, name), constraint.amount
        low, high, step = units.values()
        met = {"min_unit": low <= amount, "max_unit": amount <= high}
        met["step_size"] = amount % step == 0
        broken = ", ".join(f"{key} {units[key]}" for key, is_met in met.items() if not is_met)
        if not broken:
            return f"{self._name(best.uuid)} has {free} free{_NOT_TOGETHER}"
        least, most = -(-low // step) * step, min(high, free) // step * step
        below = amount // step * step
        near = {min(max(each, least), most) for each in (below, below + step)}
        given = " or ".join(map(str, sorted(near)))
        text = f"has {free} free, but its inventory has {broken}"
        return f"{self._name(best.uuid)} {text}: it gives {given} of {name}, not {amount}."

    def _having(self, question: Question, name: str) -> list[ProviderSummary]:
        """Return the providers, sharing ones included, that candidates take the class from."""
        answer = self.candidates(question)
        taken = dict.fromkeys(
            uuid
            for candidate in answer.allocation_requests
            for uuid, resources in candidate.allocations.items()
            if name in resources
        )
        return [answer.provider_summaries[uuid] for uuid in taken]

    def candidates(self, question: Question, limit: int = LOOKED_AT) -> AllocationCandidates:
        """Return at most ``limit`` candidates of a question without a limit."""
        if not self.has(question, limit):
            self.calls += 1
            how = QueryOptions(question.include_disabled)
            request = replace(question.request, limit=limit)
            self._answers[_key(question)] = limit, allocation_candidates(request, self.api, how)
        return self._answers[_key(question)][1]

    def has(self, question: Question, limit: int) -> bool:
        """Return whether these candidates were read already."""
        asked_for, answer = self._answers.get(_key(question), (0, AllocationCandidates()))
        return asked_for == limit or len(answer) < asked_for

    def easier(self, constraint: Constraint) -> Constraint:
        """Return the constraint with an amount that more providers can give.

        It is 1, or the least amount of a provider that has enough free, but not in its units.
        """
        [name] = constraint.terms
        if constraint not in self._easier:
            amount = 1
            for holder in self._limited_by_units(constraint, self._holders(name))[:1]:
                low, _, step = self._units(holder, name).values()
                amount = -(-low // step) * step
            self._easier[constraint] = replace(constraint, amount=amount)
        return self._easier[constraint]

    def _limited_by_units(
        self, constraint: Constraint, holders: Iterable[ProviderSummary]
    ) -> list[ProviderSummary]:
        """Return those that have the amount free, and yet do not give it."""
        [name] = constraint.terms
        giving = {each.uuid for each in self._having(request_for(constraint), name)}
        enough = (each for each in holders if each.free(name) >= constraint.amount)
        return [each for each in enough if each.uuid not in giving]

    def _holders(self, name: str) -> list[ProviderSummary]:
        """Return providers that have a resource class.

        Those in the trees of hosts, used up or not; else those that give a larger amount, such as
        a multiple of their step_size.
        """
        others = sorted({*self.question.request.unsuffixed.resources, *_OF_HOSTS} - {name})
        amounts = [*((other, 1) for other in others), *((name, amount) for amount in _MULTIPLES)]
        for resource, amount in amounts:
            asked = request_for(Constraint(Aspect.RESOURCES, UNSUFFIXED, (resource,), amount))
            every = self.candidates(asked).provider_summaries.values()
            if holders := [summary for summary in every if name in summary.capacity]:
                return holders
        return []

    def _units(self, holder: ProviderSummary, name: str) -> dict[str, int]:
        path = f"/resource_providers/{holder.uuid}/inventories"
        record = part_of(path, "inventories", self.api).get(name, {})
        defaults = {"min_unit": 1, "max_unit": holder.capacity[name], "step_size": 1}
        return {key: record.get(key, default) for key, default in defaults.items()}

    def find(self, where: RequestGroup) -> tuple[ListedProvider, ...]:
        """Return the providers that meet a group, those of disabled hosts too."""
        providers = resource_providers(ProviderQuery(where=where), self.api, _ALL).providers
        self._names.update({provider.uuid: plain(provider.name) for provider in providers})
        return providers

    def _name(self, uuid: str) -> str:
        if uuid not in self._names:
            listed = provider_by_uuid(uuid, self.api)
            self._names[uuid] = uuid if listed is None else plain(listed["name"])
        return self._names[uuid]


def _key(question: Question) -> tuple[str, bool]:
    return to_query_string(question.request), question.include_disabled
