"""The rules as docs/driver-kit.rst lists them; ``python -m tests.kit.rules_page`` prints them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator

from driverkit.rulebook import RULES, Rule


def listed() -> str:
    return "\n".join(line for rule in RULES.values() for line in lines(rule)).rstrip() + "\n"


def lines(rule: Rule) -> Iterator[str]:
    yield from (rule.name, "-" * len(rule.name), "")
    for text in (rule.says, f"*Why:* {rule.why}", f"*To mend it:* {literal(rule.mend)}"):
        yield from (*textwrap.wrap(text, 88, break_on_hyphens=False, break_long_words=False), "")


def literal(text: str) -> str:
    """Nothing in it may be taken for markup."""
    return re.sub(r"(?<=\w)_(?!\w)", r"\\_", text.replace("*", r"\*"))


if __name__ == "__main__":
    print(listed())
