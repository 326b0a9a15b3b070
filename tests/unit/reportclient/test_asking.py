"""Asking Placement: how answers are read, and what is sent."""

from typing import Any

import pytest

from reportclient.candidates import RequestGroup, ResourceRequest
from reportclient.candidates.answers import parse_candidates
from reportclient.candidates.asking import allocation_candidates
from reportclient.errors import TooOld

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


def test_a_query_is_sent_with_one_microversion() -> None:
    api = Answers(BODY, BODY)
    allocation_candidates(REQUEST, api, include_disabled=True)
    allocation_candidates(REQUEST, api)
    assert api.asked == [
        ("/allocation_candidates?resources=VCPU:1", "1.39"),
        ("/allocation_candidates?resources=VCPU:1&root_required=!COMPUTE_STATUS_DISABLED", "1.39"),
    ]


@pytest.mark.parametrize(("newest", "sent"), [("1.36", "1.36"), ("1.30", "1.35")])
def test_an_older_placement_gets_its_newest_microversion(newest: str, sent: str) -> None:
    api = Answers(TooOld("needs 1.39", newest=newest), BODY)
    allocation_candidates(REQUEST, api)
    assert [needs for _, needs in api.asked] == ["1.39", sent]


def test_a_placement_that_does_not_name_its_newest_is_too_old() -> None:
    with pytest.raises(TooOld, match="needs 1.39"):
        allocation_candidates(REQUEST, Answers(TooOld("needs 1.39")))
