"""What comes of looking at a rule, and its words for the author."""

from __future__ import annotations

import textwrap
import traceback
from pathlib import Path

from drivers.loaded import words
from drivers.testing.rules import DOCUMENT, Rule

_WIDTH = 88
_OURS = (str(Path(__file__).parent), str(Path(__file__).parent.parent / "loaded.py"))


class Broken(Exception):
    """The driver breaks the rule; the text shows what was seen, provider by provider."""


class Inapplicable(Exception):
    """The rule has nothing to look at; the text says why, and what would change that."""


class BadFixture(Exception):
    """What a fixture of the author's gives can't be used; the text says what is needed."""


class DriverRaised(Exception):
    """A method of the driver raised something; the cause is chained."""

    def __init__(self, method: str, err: BaseException) -> None:
        super().__init__(f"{method} raised {type(err).__name__}: {words(err)}")
        self.err = err

    def at_length(self) -> str:
        """With the driver's own part of the traceback."""
        frames = traceback.extract_tb(self.err.__traceback__)
        theirs = [frame for frame in frames if not frame.filename.startswith(_OURS)]
        lines = "".join(traceback.format_list(theirs)).rstrip()
        return f"{self}\n{lines}" if lines else str(self)


def explained(rule: Rule, seen: str) -> str:
    """The failure of a test: the rule, what was seen, why it matters, how to mend it."""
    return "\n".join(
        [
            _folded(f"The driver breaks the rule {rule.name}: ", rule.says),
            "",
            textwrap.indent(seen, "    "),
            "",
            _folded("Why:  ", rule.why),
            _folded("Mend: ", rule.mend),
            f"More: {DOCUMENT}, {rule.name}",
        ]
    )


def not_judged(rule: Rule, err: DriverRaised | BadFixture) -> str:
    """The failure of a test that never came to its rule."""
    first = rule.name if isinstance(err, BadFixture) else "answers"
    return "\n".join(
        [
            _folded(f"The rule {rule.name} could not be looked at: ", f"{err}."),
            f"See {first} in {DOCUMENT}.",
        ]
    )


def _folded(first: str, text: str) -> str:
    return textwrap.fill(first + text, _WIDTH, subsequent_indent=" " * min(len(first), 6))
