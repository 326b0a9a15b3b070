"""Traits for people: nothing is lost, families are folded, lines are short enough."""

import re

import os_traits
from hypothesis import given
from hypothesis import strategies as st

from agent.reporting.trait_groups import folded
from computectl.shared.screen import in_lines

TRAITS = st.sets(
    st.sampled_from([*os_traits.get_traits(), "CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_"]), max_size=120
)


def test_what_is_wrong_comes_first_then_custom_ones() -> None:
    assert folded(["COMPUTE_NODE", "CUSTOM_Z", "COMPUTE_STATUS_DISABLED", "CUSTOM_A"]) == [
        "COMPUTE_STATUS_DISABLED",
        "CUSTOM_A",
        "CUSTOM_Z",
        "COMPUTE_NODE",
    ]


def test_a_family_is_folded_and_a_single_member_is_not() -> None:
    assert folded(["HW_CPU_X86_SSE"]) == ["HW_CPU_X86_SSE"]
    assert folded(["HW_CPU_X86_SSE", "HW_CPU_X86_AVX"]) == ["HW_CPU_X86_{AVX,SSE}"]


@given(TRAITS, st.integers(30, 200))
def test_lines_say_every_trait_once_and_keep_to_the_width(traits: set[str], width: int) -> None:
    lines = list(in_lines(folded(traits), width))
    longest = max(map(len, traits), default=0) + 3
    assert all(len("  ".join(line)) <= max(width, longest) for line in lines)
    assert sorted(unfolded("  ".join(word for line in lines for word in line))) == sorted(traits)


def test_the_last_member_of_a_family_stays_on_a_line_that_it_just_fits() -> None:
    assert list(in_lines(["P_{AAAA,BB,CC}"], 8)) == [["P_{AAAA,"], ["  BB,CC}"]]


def unfolded(text: str) -> list[str]:
    """Every trait that the text says; what was broken after a comma belongs together."""
    text = re.sub(r",\s+", ",", text)
    found = []
    for word in text.split():
        family, _, members = word.partition("{")
        found += [family + member for member in members.rstrip("}").split(",")]
    return found
