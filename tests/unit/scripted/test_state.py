"""Spans, and what a node is at a moment."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from driverkit.scripted.script import Now, Span, state_at
from driverkit.scripted.script_file import parse


def held(span: Span, upto: int) -> list[int]:
    return [n for n in range(upto) if span.holds(Now(n))]


@pytest.mark.parametrize(
    ("span", "periods"),
    [
        (Span(), [0, 1, 2, 3, 4, 5, 6, 7]),
        (Span(5), [5, 6, 7]),
        (Span(2, 3), [2, 3, 4]),
        (Span(1, 2, 4), [1, 2, 5, 6]),
        (Span(0, 0), []),
    ],
)
def test_a_span_holds_from_after_for_its_length(span, periods):
    assert held(span, 8) == periods


def test_a_span_in_seconds_does_not_look_at_periods():
    span = Span(10, 5, timed=True)
    assert [span.holds(Now(12, s)) for s in (9.9, 10.0, 14.9, 15.0)] == [False, True, True, False]


CHANGING = """
nodes: {h1: {inventory: {VGPU: 4}, children: {a: {children: {b: }}, c: }}}
changes:
  - {after: 1, for: 3, every: 5, provider: a, remove: true}
  - {after: 2, for: 2, every: 7, provider: a/b, children: {d: }}
  - {after: 3, for: 9, every: 11, children: {e: }, moves: {VGPU: {to: {e: 2, c: 1}}}}
  - {after: 4, for: 1, every: 3, provider: e, remove: true}
"""


@given(st.integers(0, 2000), st.floats(0, 1e6))
def test_parents_are_there_before_their_children_at_any_moment(periods, seconds):
    node = parse(CHANGING, "s", "h").nodes["h1"]
    seen: set[str | None] = {None}
    for provider in state_at(node, Now(periods, seconds)).providers:
        assert provider.parent in seen
        seen.add(provider.ref)


@given(st.integers(0, 2000))
def test_the_targets_of_moves_are_there_with_the_new_class_at_any_moment(periods):
    node = parse(CHANGING, "s", "h").nodes["h1"]
    state = state_at(node, Now(periods))
    there = {provider.name: provider for provider in state.providers}
    for move in state.moves:
        for target in move.targets:
            assert move.new_class in there[target].inventory
