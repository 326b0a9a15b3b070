"""Somebody else's JSON at Placement's address is told as that, whichever command asks."""

from collections.abc import Callable
from typing import Any

import pytest

from compute_registry.observed_placement import read_tree
from computectl.asking.request import unknown_names_error
from computectl.reading.trees import names_in, read_trees
from reportclient.candidates.asking import disabled_roots
from reportclient.errors import UnknownNames, Unreachable

ROOT = "c0ffee00-0000-4000-8000-000000000001"


class Foreign:
    """Answers as some other API, or the portal of a provider's network."""

    def request(self, method: str, path: str, **_: Any) -> dict[str, Any]:
        return {"versions": [{"id": "v3"}]}


@pytest.mark.parametrize(
    "ask",
    [
        lambda api: read_trees(api, limit=1),
        lambda api: read_tree(ROOT, api),
        lambda api: names_in([ROOT], api),
        lambda api: unknown_names_error(UnknownNames("400", names=frozenset({"HW_X"})), api),
        disabled_roots,
    ],
    ids=["trees", "tree", "names", "unknown names", "services"],
)
def test_it_is_not_placements_answer(ask: Callable[[Foreign], object]) -> None:
    with pytest.raises(Unreachable, match="not in Placement's format"):
        ask(Foreign())
