"""Explain why a request has few candidates or none, by queries with some of its constraints.

Each host is counted by the first constraint that excludes it, as kube-scheduler does: the
constraints are added one after the other.  An amount that only a sharing provider gives is added
after one of the hosts' own: alone it has candidates, but on no host.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from computectl.asking.constraints import (
    AMOUNT,
    ENABLED,
    OF_GROUPS,
    Constraint,
    constraints,
    keeping,
)
from computectl.shared.commands import Columns
from computectl.shared.screen import Line, Screen, in_columns
from reportclient.candidates import AllocationCandidates, ResourceRequest, to_query_string
from reportclient.candidates.asking import allocation_candidates
from reportclient.candidates.request_filter import forbid_disabled
from reportclient.http import API
from reportclient.model import SHARES_VIA_AGGREGATE, Inventory
from reportclient.plain_text import plain
from reportclient.reader import providers_with_trait, read_part

LIMIT = 10_000
"""Candidates requested in each query; of an answer with as many, hosts are not counted."""
HOST_TRAITS = ("COMPUTE_NODE", f"!{SHARES_VIA_AGGREGATE}")
"""Traits that the roots of hosts have; the second is used if no provider has the first."""
PROBES = (1, 2, 4, 8, 16, 60, 64, 256, 1000, 1024)
"""Amounts that find the providers of a resource class, whatever their min_unit and step_size."""
INVENTORIES = 20
"""Maximum number of inventories that are read for the largest amount."""
WIDEST = 60
"""Letters of a constraint that are drawn."""


@dataclass(frozen=True, slots=True)
class Explained:
    """A constraint, and what it excludes.

    ``excludes_first``: number of hosts that no constraint before it excludes; ``hosts_without``:
    number of hosts that have candidates without it.  Both are ``None`` if hosts can't be counted:
    there are too many candidates, only those of sharing providers, or no amount is left.

    ``largest``: of a resource class, the largest amount that a provider which meets the other
    constraints of the group can give now; ``units``: those of its inventory that matter.
    """

    constraint: Constraint
    excludes_first: int | None
    hosts_without: int | None
    largest: int | None = None
    units: Mapping[str, int] = field(default_factory=dict)


COLUMNS: Columns = {
    "constraint": lambda row: str(row.constraint),
    "excludes_first": lambda row: row.excludes_first,
    "hosts_without": lambda row: row.hosts_without,
    "largest": lambda row: row.largest,
    "units": lambda row: dict(row.units),
}


@dataclass(frozen=True, slots=True)
class Explanation:
    """The constraints of a request in the order in which they were applied.

    ``hosts``: number of all hosts; ``remaining``: of those with candidates, ``None`` if unknown.
    """

    hosts: int
    remaining: int | None
    rows: tuple[Explained, ...]


def explain(request: ResourceRequest, api: API, *, include_disabled: bool) -> Explanation:
    """Return the explanation of a request.

    Takes two queries for each constraint, and some ten more for each amount.

    :raises reportclient.errors.PlacementError: a query failed.
    """
    return _Explainer(request if include_disabled else forbid_disabled(request), api).explain()


def draw(explanation: Explanation, screen: Screen) -> Iterator[str]:
    """Yield the explanation as a table."""
    remaining = "-" if explanation.remaining is None else explanation.remaining
    yield f"hosts with candidates: {remaining} of {explanation.hosts}"
    yield ""
    titles = ("excludes first", "hosts without", "largest")
    yield from in_columns([_line(row) for row in explanation.rows], titles, screen)
    if explanation.remaining is None:
        yield ""
        yield f"hosts are not counted: at least {LIMIT} candidates, or only sharing providers"


def _line(row: Explained) -> Line:
    text = plain(str(row.constraint))
    text = text if len(text) <= WIDEST else f"{text[: WIDEST - 1]}…"
    counts = ("-" if n is None else str(n) for n in (row.excludes_first, row.hosts_without))
    units = ", ".join(f"{key} {value}" for key, value in row.units.items())
    largest = "" if row.largest is None else str(row.largest)
    return Line("", ((text, None),), (*counts, f"{largest} ({units})" if units else largest))


@dataclass(slots=True)
class _Explainer:
    request: ResourceRequest
    api: API
    _answers: dict[str, AllocationCandidates] = field(default_factory=dict)

    def explain(self) -> Explanation:
        hosts = self._all_hosts()
        every = constraints(self.request)
        first, remaining = self._first(every, hosts)
        rows = []
        for constraint in sorted(every, key=list(first).index) if first else every:
            without = self._hosts([each for each in every if each != constraint])
            rows.append(
                Explained(
                    constraint,
                    first.get(constraint),
                    None if without is None else len(without & hosts),
                    *(self._largest(constraint) if constraint.parameter == AMOUNT else ()),
                )
            )
        return Explanation(len(hosts), remaining, tuple(rows))

    def _all_hosts(self) -> frozenset[str]:
        """Return the UUIDs of the roots of all hosts, disabled ones too."""
        for trait in HOST_TRAITS:
            listed = providers_with_trait(trait, self.api)
            if roots := frozenset(
                p["uuid"] for p in listed if p["uuid"] == p["root_provider_uuid"]
            ):
                return roots
        return frozenset()

    def _first(
        self, every: Collection[Constraint], hosts: frozenset[str]
    ) -> tuple[dict[Constraint, int], int | None]:
        """Return the number of hosts that each constraint is the first to exclude, and of the rest.

        Empty and ``None`` if hosts can't be counted.
        """
        first: dict[Constraint, int] = {}
        waiting, remaining = list(every), hosts
        while waiting and remaining:
            for constraint in waiting:  # until the hosts with those before it can be counted
                found = self._hosts([*first, constraint])
                if found is not None:
                    break
            else:
                return {}, None
            waiting.remove(constraint)
            first[constraint] = len(remaining - found)
            remaining &= found
        return first | dict.fromkeys(waiting, 0), len(remaining)

    def _hosts(self, subset: Collection[Constraint]) -> frozenset[str] | None:
        """Return the hosts with candidates for these constraints; ``None`` if they are unknown."""
        answer = self._candidates(subset)
        if answer is None or len(answer) >= LIMIT:
            return None
        hosts = answer.hosts()
        if any(answer.provider_summaries[uuid].shares for uuid in hosts):
            return None
        return frozenset(hosts)

    def _candidates(self, subset: Collection[Constraint]) -> AllocationCandidates | None:
        """Return the candidates for these constraints; ``None`` if no amount is among them."""
        request = keeping(self.request, subset)
        if request is None:
            return None
        key = to_query_string(request)
        if key not in self._answers:
            limited = replace(request, limit=LIMIT)
            self._answers[key] = allocation_candidates(limited, self.api, include_disabled=True)
        return self._answers[key]

    def _largest(self, constraint: Constraint) -> tuple[int, dict[str, int]]:
        """Return the largest amount that a provider can give now, and its units."""
        name = constraint.value.partition(":")[0]
        free: dict[str, int] = {}
        for amount in PROBES:
            probe = replace(constraint, value=f"{name}:{amount}")
            answer = self._candidates([probe, *self._of_group(constraint)])
            assert answer is not None
            for candidate in answer.allocation_requests:
                for uuid, resources in candidate.allocations.items():
                    if name in resources:
                        free[uuid] = answer.provider_summaries[uuid].free(name)
        best: tuple[int, dict[str, int]] = (0, {})
        for uuid in sorted(free, key=lambda uuid: (-free[uuid], uuid))[:INVENTORIES]:
            if free[uuid] <= best[0]:
                break
            best = max(best, self._given_by(uuid, name, free[uuid]), key=lambda each: each[0])
        return best

    def _of_group(self, amount: Constraint) -> Iterator[Constraint]:
        """Yield what a provider of this amount has to meet, besides other amounts."""
        for each in constraints(self.request):
            same_group = each.parameter in OF_GROUPS and each.suffix == amount.suffix
            # In the unsuffixed group another provider may have the required traits.
            by_others = not each.suffix and each.parameter == "required" and each.value[0] != "!"
            if each == ENABLED or (same_group and each.parameter != AMOUNT and not by_others):
                yield each

    def _given_by(self, uuid: str, name: str, free: int) -> tuple[int, dict[str, int]]:
        """Return the largest amount that this provider gives, and its units; 1 GET."""
        inventory, _ = read_part(uuid, "inventories", self.api)
        record = inventory.get(name, Inventory(0)).with_defaults(None).as_dict()
        least, most, step = (int(record[key]) for key in ("min_unit", "max_unit", "step_size"))
        largest = min(free, most) // step * step
        units = {"min_unit": least, "step_size": step, "max_unit": most}
        limits = {key: units[key] for key in units if units[key] > 1 and key != "max_unit"}
        if most < free:
            limits["max_unit"] = most
        return (largest if largest >= least else 0), limits
