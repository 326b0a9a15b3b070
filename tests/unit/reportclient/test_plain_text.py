"""What is printed of a text from outside: never anything that a terminal or a log obeys."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reportclient.plain_text import first_few, plain


@pytest.mark.parametrize(
    ("text", "printed"),
    [
        ("host1", "host1"),
        ("café 主机", "café 主机"),
        ("\x1b[2J", r"\x1b[2J"),
        ("a\r\nINFO all is well", r"a\r\nINFO all is well"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("a\u202eb\u2028c", r"a\u202eb\u2028c"),
        ("\ud800", r"\ud800"),
        ("C:\\temp", "C:\\temp"),
    ],
)
def test_only_what_can_be_seen_is_printed(text: str, printed: str) -> None:
    assert plain(text) == printed


def test_line_breaks_may_be_kept() -> None:
    assert plain("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


@given(st.text(st.characters(blacklist_categories=())))
def test_whatever_it_was_it_can_be_printed(text: str) -> None:
    assert plain(text).isprintable()
    plain(text).encode()


@pytest.mark.parametrize(
    ("number", "text"), [(1, "c0"), (5, "c0, c1, c2, c3, c4"), (7, "c0, c1, c2, c3, c4 and 2 more")]
)
def test_the_first_few_names_are_told(number: int, text: str) -> None:
    assert first_few([f"c{each}" for each in range(number)]) == text
