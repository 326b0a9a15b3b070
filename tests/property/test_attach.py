"""Whatever a driver does to a tree in attach mode, nothing of the owner's is changed."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.period.attach import Restraint
from agent.period.heard import HeardTree
from agent.period.parts import Parts
from reportclient.diff import diff
from reportclient.plan import CreateProvider, DeleteProvider, SetTraits, UpdateProvider
from reportclient.snapshot import Snapshot
from reportclient.view import View
from tests.property.strategies import NAMES, ROOT, TRAITS, UUIDS, edits, perform, snapshots

worlds = snapshots(one_tree=True)


@given(
    worlds,
    st.frozensets(st.sampled_from(UUIDS[1:])),
    edits(),
    st.frozensets(st.sampled_from(TRAITS)),
)
def test_only_what_is_ours_is_planned(
    base: Snapshot, made: frozenset[str], steps: list[Any], added: frozenset[str]
) -> None:
    ours = made & base.providers.keys()
    view = View(base, dict.fromkeys(base.providers, 1), made=ours)
    tree = HeardTree(base)
    for step in steps:
        perform(tree, step)
    if not tree.exists(ROOT) or tree.data(ROOT).parent_uuid is not None:
        return  # refused before
    said = frozenset(claim for claim in tree.heard if claim.kind == "trait")
    restraint = Restraint(ROOT, view, Parts({"a": said}, added=added))
    try:
        problems = list(restraint.undo(tree))
    except ValueError:
        assert {step[0] for step in steps} & {"root", "child", "rename"}, "a name was taken"
        return
    new = tree.freeze()
    assert all(problem.provider in NAMES for problem in problems)
    for operation in diff(base, new):
        if isinstance(operation, CreateProvider):
            assert operation.parent_uuid is not None
        elif isinstance(operation, DeleteProvider | UpdateProvider) or hasattr(operation, "uuid"):
            is_root = operation.uuid == ROOT and isinstance(operation, SetTraits)
            assert is_root or operation.uuid in ours or operation.uuid not in base
    before, after = base.providers[ROOT].traits, new.providers[ROOT].traits
    assert before - after <= added, "of the root's traits only ours go"
    assert after - before <= {claim.name for claim in said if claim.uuid == ROOT}
