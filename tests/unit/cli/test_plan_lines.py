"""A body is shown as JSON that can be pasted."""

import json

from hypothesis import given
from hypothesis import strategies as st

from computectl.plan import json_lines

VALUES = st.recursive(
    st.none() | st.integers() | st.text(max_size=8) | st.just("a, {b: c}"),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=30,
)


@given(VALUES, st.integers(20, 100))
def test_the_lines_are_the_value_and_short_where_its_pieces_are(value: object, width: int) -> None:
    lines = list(json_lines(value, "      ", width))
    assert json.loads("\n".join(lines)) == value
    longest = max(len(piece.strip()) for piece in json.dumps(value, indent=1).splitlines())
    assert all(len(line) <= max(width, longest + 8) for line in lines)


def test_a_body_looks_like_this() -> None:
    body = {"resource_provider_generation": 4, "inventories": {"VCPU": {"total": 8, "reserved": 0}}}
    assert list(json_lines(body, "  ", 50)) == [
        '  {"resource_provider_generation": 4,',
        '    "inventories": {"VCPU": {"total": 8,',
        '    "reserved": 0}}}',
    ]
