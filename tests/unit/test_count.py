"""tools/count.py: what a line of a Python file counts as."""

from tools.count import counted

TEXT = '''\
"""A module,
described in two lines."""

import os
from sys import (
    argv,
)

ANSWER = 42  # a comment beside code
"""What a constant is."""

# a comment by itself


def function() -> str:
    """What it returns."""
    return """a text
    of two lines"""
'''


def test_each_line_counts_once_by_its_kind():
    counts = counted(TEXT)
    kinds = ("code", "docstrings", "comments", "imports", "blank")
    assert [counts[kind] for kind in kinds] == [4, 4, 1, 4, 5]
    assert sum(counts[kind] for kind in kinds) == counts["lines"] == TEXT.count("\n")


def test_functions_and_files_are_counted():
    assert (counted(TEXT)["files"], counted(TEXT)["functions"]) == (1, 1)
