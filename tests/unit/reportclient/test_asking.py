"""Asking Placement: how answers are read, and what is sent."""

from __future__ import annotations

from typing import Any

import pytest

from reportclient.candidates import BadQuery, ProviderQuery, RequestGroup, ResourceRequest
from reportclient.candidates.answers import parse_candidates
from reportclient.candidates.asking import QueryOptions, allocation_candidates, resource_providers
from reportclient.errors import TooOld, Unreachable

ROOT, CHILD, STORE = (f"00000000-0000-4000-8000-00000000000{n}" for n in (1, 2, 3))
REQUEST = ResourceRequest(RequestGroup.from_values({"VCPU": 1}))


class Answers:
    """A door to Placement that gives these answers, and keeps what was asked."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, str | None]] = []

    def request(self, method: str, path: str, *, json: Any = None, needs: str | None = None) -> Any:
        self.asked.append((path, needs))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def summary(root: str, parent: str | None = None, *traits: str) -> dict[str, Any]:
    return {
        "resources": {"VCPU": {"capacity": 8, "used": 3}},
        "traits": list(traits),
        "parent_provider_uuid": parent,
        "root_provider_uuid": root,
    }


BODY = {
    "allocation_requests": [
        {
            "allocations": {
                STORE: {"resources": {"DISK_GB": 1}},
                CHILD: {"resources": {"VCPU": 1}},
            },
            "mappings": {"": [CHILD], "_D": [STORE]},
        }
    ],
    "provider_summaries": {
        ROOT: summary(ROOT),
        CHILD: summary(ROOT, ROOT),
        STORE: summary(STORE, None, "MISC_SHARES_VIA_AGGREGATE"),
    },
}


def test_the_host_of_a_candidate_is_the_root_of_what_is_not_shared() -> None:
    answer = parse_candidates(BODY)
    [request] = answer.allocation_requests
    assert answer.host(request) == ROOT
    assert request.mappings == {"": (CHILD,), "_D": (STORE,)}
    assert answer.provider_summaries[CHILD].free("VCPU") == 5
    assert answer.provider_summaries[CHILD].free("VGPU") == 0


def test_a_query_says_the_lowest_version_that_serves() -> None:
    api = Answers(BODY, BODY)
    allocation_candidates(REQUEST, api, QueryOptions(include_disabled=True))
    allocation_candidates(REQUEST, api)
    assert api.asked == [
        ("/allocation_candidates?resources=VCPU:1", "1.29"),
        ("/allocation_candidates?resources=VCPU:1&root_required=!COMPUTE_STATUS_DISABLED", "1.35"),
    ]


@pytest.mark.parametrize(
    ("newest", "text"),
    [
        (
            "1.34",
            r"^Placement has microversion 1.34 and lacks: root_required \(microversion 1.35\)$",
        ),
        ("1.35", "^too old for anything$"),
        (None, "^too old for anything$"),
    ],
)
def test_what_an_older_placement_lacks_is_named_and_nothing_is_sent_again(
    newest: str | None, text: str
) -> None:
    api = Answers(TooOld("too old for anything", newest=newest))
    with pytest.raises(TooOld, match=text):
        allocation_candidates(REQUEST, api)
    assert api.answers == []


@pytest.mark.parametrize(
    "body",
    [
        {"hello": "from a proxy"},
        {"allocation_requests": [], "provider_summaries": []},
        {**BODY, "provider_summaries": {}},
        {"allocation_requests": [{}], "provider_summaries": {}},
    ],
)
def test_what_is_not_placements_is_no_answer(body: dict[str, Any]) -> None:
    with pytest.raises(Unreachable, match="not in Placement's format"):
        allocation_candidates(REQUEST, Answers(body))


def test_providers_likewise() -> None:
    with pytest.raises(Unreachable, match="not in Placement's format"):
        resource_providers(ProviderQuery("host1"), Answers({"hello": "from a proxy"}))


def test_nothing_is_sent_of_what_is_wrong() -> None:
    api = Answers()
    for request in (
        ResourceRequest(RequestGroup({"VCPU": True})),
        ResourceRequest(RequestGroup({"VCPU": 1}, frozenset({frozenset({"A", "!B"})}))),
        ResourceRequest(RequestGroup({"VCPU": 1}), {"a b": RequestGroup({"VCPU": 1})}),
        ResourceRequest(RequestGroup({"VCPU": 1}, in_tree="host1")),
        ResourceRequest(RequestGroup({"VCPU": 1}), {"_A": RequestGroup()}),
    ):
        with pytest.raises(BadQuery):
            allocation_candidates(request, api)
    assert not api.asked
