"""The constraints of a request, one by one, and the request without some of them.  Pure."""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, replace
from enum import Enum

from reportclient.candidates import RequestGroup, ResourceRequest
from reportclient.query.request import UNSUFFIXED
from reportclient.request_filter import DISABLED


class Aspect(Enum):
    """What a constraint looks at."""

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
    """``suffix`` is that of its group, ``None`` if it is of the whole request.

    ``terms`` are traits, aggregates, suffixes, a UUID or a resource class; ``amount`` is
    that of a resource class.
    """

    kind: Aspect
    suffix: str | None = None
    terms: tuple[str, ...] = ()
    amount: int = 0

    @property
    def written(self) -> str:
        """As it stands in a query."""
        if self.kind is Aspect.ENABLED:
            return f"root_required=!{DISABLED}"
        if self.kind is Aspect.RESOURCES:
            return f"resources{self.suffix}={self.terms[0]}:{self.amount}"
        parameter, _, sign = self.kind.value.partition(": ")
        several = self.kind in (Aspect.REQUIRED, Aspect.MEMBER_OF) and len(self.terms) > 1
        value = ("in:" if several else "") + ",".join(sign + term for term in self.terms)
        return f"{parameter}{self.suffix or ''}={value}"


@dataclass(frozen=True, slots=True)
class Question:
    """A request, and whether disabled hosts are left out."""

    request: ResourceRequest
    include_disabled: bool = False


def constraints(asked: Question) -> list[Constraint]:
    """All of them, those first that leave out most at once."""
    request = asked.request
    found = [] if asked.include_disabled else [Constraint(Aspect.ENABLED)]
    found += (Constraint(Aspect.ROOT_REQUIRED, None, (t,)) for t in sorted(request.root_required))
    # Whoever copies the query of a scheduler has its filter in it: that is the same as ours.
    forbidden = request.root_forbidden - (set() if asked.include_disabled else {DISABLED})
    found += (Constraint(Aspect.ROOT_FORBIDDEN, None, (t,)) for t in sorted(forbidden))
    for suffix, group in request.by_suffix().items():
        found += _of_group(suffix, group)
    if request.group_policy == "isolate" and len(request.groups) > 1:
        found.append(Constraint(Aspect.ISOLATE, None, ("isolate",)))
    for suffixes in sorted(request.same_subtree, key=sorted):
        found.append(Constraint(Aspect.SAME_SUBTREE, None, tuple(sorted(suffixes))))
    return sorted(found, key=lambda constraint: constraint.kind is Aspect.RESOURCES)


def _of_group(suffix: str, group: RequestGroup) -> Iterator[Constraint]:
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


def without(asked: Question, constraint: Constraint) -> Question | None:
    """The same, less one constraint; ``None`` if nothing is left to ask for."""
    left = _tidied(_less(asked, constraint))
    return left if any(g.resources for g in left.request.by_suffix().values()) else None


def only(asked: Question, kept: Collection[Constraint]) -> Question:
    """Resources, and of everything else only these constraints."""
    amounts = (each for each in constraints(asked) if each.kind is Aspect.RESOURCES)
    return keeping(asked, (*kept, *amounts))


def keeping(asked: Question, kept: Collection[Constraint]) -> Question:
    """These constraints and nothing else."""
    for constraint in constraints(asked):
        if constraint not in kept:
            asked = _less(asked, constraint)
    return _tidied(asked)


def alone(constraint: Constraint) -> Question:
    """One resource class of one group, and nothing else, disabled hosts included."""
    group = RequestGroup({constraint.terms[0]: constraint.amount})
    if not constraint.suffix:
        return Question(ResourceRequest(group), include_disabled=True)
    return Question(ResourceRequest(groups={constraint.suffix: group}), include_disabled=True)


def one_of(constraint: Constraint) -> Constraint:
    """The same resource class, as little of it as can be asked for."""
    return replace(constraint, amount=1)


def with_amount(asked: Question, constraint: Constraint) -> Question:
    """The same, with the amount of the constraint in place of what its group asks for."""
    request, suffix = asked.request, constraint.suffix or UNSUFFIXED
    group = request.by_suffix()[suffix]
    changed = replace(group, resources={**group.resources, constraint.terms[0]: constraint.amount})
    if suffix == UNSUFFIXED:
        return replace(asked, request=replace(request, unsuffixed=changed))
    return replace(asked, request=replace(request, groups={**request.groups, suffix: changed}))


def _less(asked: Question, constraint: Constraint) -> Question:
    request = asked.request
    match constraint.kind:
        case Aspect.ENABLED:
            forbidden = request.root_forbidden - {DISABLED}
            return Question(replace(request, root_forbidden=forbidden), include_disabled=True)
        case Aspect.ROOT_REQUIRED:
            request = replace(request, root_required=request.root_required - {*constraint.terms})
        case Aspect.ROOT_FORBIDDEN:
            request = replace(request, root_forbidden=request.root_forbidden - {*constraint.terms})
        case Aspect.ISOLATE:
            request = replace(request, group_policy="none")
        case Aspect.SAME_SUBTREE:
            subtrees = request.same_subtree - {frozenset(constraint.terms)}
            request = replace(request, same_subtree=subtrees)
        case _:
            request = _with_group(request, constraint)
    return replace(asked, request=request)


def _with_group(request: ResourceRequest, constraint: Constraint) -> ResourceRequest:
    if constraint.suffix == UNSUFFIXED:
        return replace(request, unsuffixed=_less_of_group(request.unsuffixed, constraint))
    assert constraint.suffix is not None
    group = request.groups.get(constraint.suffix, RequestGroup())
    groups = {**request.groups, constraint.suffix: _less_of_group(group, constraint)}
    return replace(request, groups=groups)


def _less_of_group(group: RequestGroup, constraint: Constraint) -> RequestGroup:
    terms = frozenset(constraint.terms)
    match constraint.kind:
        case Aspect.IN_TREE:
            return replace(group, in_tree=None)
        case Aspect.REQUIRED:
            return replace(group, required_traits=group.required_traits - {terms})
        case Aspect.FORBIDDEN:
            return replace(group, forbidden_traits=group.forbidden_traits - terms)
        case Aspect.MEMBER_OF:
            return replace(group, member_of=group.member_of - {terms})
        case Aspect.NOT_MEMBER_OF:
            return replace(group, forbidden_aggregates=group.forbidden_aggregates - terms)
        case _:
            left = {n: amount for n, amount in group.resources.items() if n not in terms}
            return replace(group, resources=left)


def _tidied(asked: Question) -> Question:
    """Without groups that ask for nothing any more, and without what named them."""
    request = asked.request
    together = _all(request.same_subtree)
    groups = {
        suffix: group
        for suffix, group in request.groups.items()
        if group.resources or (group and suffix in together)
    }
    subtrees = frozenset(names.intersection(groups) for names in request.same_subtree) - {
        frozenset()
    }
    unsuffixed = request.unsuffixed if request.unsuffixed.resources else RequestGroup()
    left = replace(request, unsuffixed=unsuffixed, groups=groups, same_subtree=subtrees)
    return replace(asked, request=left)


def _all(sets: Iterable[frozenset[str]]) -> frozenset[str]:
    return frozenset().union(*sets)
