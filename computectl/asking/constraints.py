"""Split a request into constraints, and build requests from some of them.  Pure."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import Enum

from reportclient.candidates import RequestGroup, ResourceRequest, read_request
from reportclient.candidates.request import UNSUFFIXED
from reportclient.candidates.text import query_string
from reportclient.request_filter import DISABLED

OF_GROUPS = ("resources", "required", "member_of", "in_tree")
"""Placement's parameters of groups."""
_JOINED = ("resources", "root_required")
"""Parameters that Placement takes once, or once for each group."""


class Aspect(Enum):
    """Subject of a constraint; the value is Placement's parameter, with ``!`` if negated."""

    ENABLED = "enabled"
    IN_TREE = "in_tree"
    ROOT_REQUIRED = "root_required"
    ROOT_FORBIDDEN = "root_required: !"
    SAME_SUBTREE = "same_subtree"
    ISOLATE = "group_policy"
    REQUIRED = "required"
    FORBIDDEN = "required: !"
    MEMBER_OF = "member_of"
    NOT_MEMBER_OF = "member_of: !"
    RESOURCES = "resources"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint of a request.

    ``suffix``: the suffix of its group, ``None`` if it is about the whole request.  ``terms``:
    traits, aggregates, suffixes, a UUID or a resource class.  ``amount``: of a resource class.
    """

    aspect: Aspect
    suffix: str | None = None
    terms: tuple[str, ...] = ()
    amount: int = 0

    @property
    def written(self) -> str:
        """Return the constraint as a parameter of a query string."""
        if self.aspect is Aspect.ENABLED:
            return f"root_required=!{DISABLED}"
        if self.aspect is Aspect.RESOURCES:
            return f"resources{self.suffix}={self.terms[0]}:{self.amount}"
        parameter, _, sign = self.aspect.value.partition(": ")
        several = self.aspect in (Aspect.REQUIRED, Aspect.MEMBER_OF) and len(self.terms) > 1
        value = ("in:" if several else "") + ",".join(sign + term for term in self.terms)
        return f"{parameter}{self.suffix or ''}={value}"


@dataclass(frozen=True, slots=True)
class Question:
    """A request, and whether its answer includes disabled hosts."""

    request: ResourceRequest
    include_disabled: bool = False


def constraints(question: Question) -> list[Constraint]:
    """Return all constraints: of the whole request, then of its groups, then amounts."""
    request = question.request
    result = [] if question.include_disabled else [Constraint(Aspect.ENABLED)]
    result += (Constraint(Aspect.ROOT_REQUIRED, None, (t,)) for t in sorted(request.root_required))
    # A query copied from a scheduler has the scheduler's filter already, which equals ours.
    forbidden = request.root_forbidden - (set() if question.include_disabled else {DISABLED})
    result += (Constraint(Aspect.ROOT_FORBIDDEN, None, (t,)) for t in sorted(forbidden))
    for suffix, group in request.by_suffix().items():
        result += _group_constraints(suffix, group)
    if _isolates(request):
        result.append(Constraint(Aspect.ISOLATE, None, ("isolate",)))
    for suffixes in sorted(request.same_subtree, key=sorted):
        result.append(Constraint(Aspect.SAME_SUBTREE, None, tuple(sorted(suffixes))))
    return sorted(result, key=lambda constraint: constraint.aspect is Aspect.RESOURCES)


def _group_constraints(suffix: str, group: RequestGroup) -> Iterator[Constraint]:
    if group.in_tree is not None:
        yield Constraint(Aspect.IN_TREE, suffix, (group.in_tree,))
    for choice in sorted(group.required_traits, key=sorted):
        yield Constraint(Aspect.REQUIRED, suffix, tuple(sorted(choice)))
    for trait in sorted(group.forbidden_traits):
        yield Constraint(Aspect.FORBIDDEN, suffix, (trait,))
    for choice in sorted(group.member_of, key=sorted):
        yield Constraint(Aspect.MEMBER_OF, suffix, tuple(sorted(choice)))
    for uuid in sorted(group.forbidden_aggregates):
        yield Constraint(Aspect.NOT_MEMBER_OF, suffix, (uuid,))
    for name, amount in sorted(group.resources.items()):
        yield Constraint(Aspect.RESOURCES, suffix, (name,), amount)


def without_constraint(question: Question, constraint: Constraint) -> Question | None:
    """Return the question without a constraint; ``None`` if it then has no resources."""
    left = keeping(question, [each for each in constraints(question) if each != constraint])
    return left if any(g.resources for g in left.request.by_suffix().values()) else None


def with_constraints_only(question: Question, subset: Collection[Constraint]) -> Question:
    """Return the question with all its amounts and, of the others, these constraints only."""
    amounts = (each for each in constraints(question) if each.aspect is Aspect.RESOURCES)
    return keeping(question, (*subset, *amounts))


def with_amount(question: Question, constraint: Constraint) -> Question:
    """Return the question with the constraint's amount for its resource class and group."""
    other = constraint.amount
    return keeping(
        question,
        [
            constraint if replace(each, amount=other) == constraint else each
            for each in constraints(question)
        ],
    )


def request_for(constraint: Constraint) -> Question:
    """Return a question for the constraint's resources only, disabled hosts included."""
    return Question(_request([constraint]), include_disabled=True)


def keeping(question: Question, subset: Collection[Constraint]) -> Question:
    """Return a question with these constraints; groups that become empty are omitted."""
    before, enabled = question.request, Constraint(Aspect.ENABLED)
    together = [set(each.terms) for each in subset if each.aspect is Aspect.SAME_SUBTREE]
    having = {each.suffix for each in subset if each.aspect is Aspect.RESOURCES}.union(*together)
    # Placement's client adds that hosts are enabled.
    others = (each for each in subset if each.aspect not in (Aspect.ENABLED, Aspect.SAME_SUBTREE))
    request = _request(each for each in others if each.suffix is None or each.suffix in having)
    subtrees = {frozenset(request.groups).intersection(names) for names in together}
    may_share = _isolates(before) and request.group_policy is None
    request = replace(
        request,
        group_policy="none" if may_share else before.group_policy,
        same_subtree=frozenset(filter(None, subtrees)),
        limit=before.limit,
    )
    return Question(request, include_disabled=enabled not in subset)


def group_having(constraint: Constraint) -> RequestGroup:
    """Return a group that requires the traits or aggregates that the constraint names."""
    aggregates = constraint.aspect in (Aspect.MEMBER_OF, Aspect.NOT_MEMBER_OF)
    aspect = Aspect.MEMBER_OF if aggregates else Aspect.REQUIRED
    return _request([replace(constraint, aspect=aspect, suffix=UNSUFFIXED)]).unsuffixed


def _request(subset: Iterable[Constraint]) -> ResourceRequest:
    return read_request(joined_query(each.written.split("=", 1) for each in subset))


def joined_query(pairs: Iterable[Sequence[str]]) -> str:
    """Return parameters and values as a query string; those that may be given once are joined."""
    values: dict[str, list[str]] = {}
    for parameter, value in pairs:
        several = values.setdefault(parameter, [])
        if several and parameter.startswith(_JOINED):
            several[0] += f",{value}"
        else:
            several.append(value)
    return query_string(values)


def _isolates(request: ResourceRequest) -> bool:
    return request.group_policy == "isolate" and len(request.groups) > 1
