"""Results of checking a rule, with texts for the author."""

import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from driverkit.rulebook import DOCUMENT, Rule
from drivers.errors import DriverError
from reportclient.plain_text import error_text

_WIDTH = 88
_INDENT = 6
_ROOT = Path(__file__).parents[1]
_PARTS = ("agent", "driverkit", "drivers/deadline.py", "drivers/loaded.py", "reportclient")
_OURS = tuple(str(_ROOT / part) for part in _PARTS)


class Broken(Exception):
    """The driver breaks the rule; the text shows what was seen, provider by provider."""


class Hung(Broken):
    """A method has not returned in time; nothing more can be asked of the driver."""


class Inapplicable(Exception):
    """The rule has nothing to look at; the text says why, and what would change that."""


class NotJudged(Exception):
    """The rule could not be looked at; the text says why."""


class BadFixture(NotJudged):
    """A fixture of the author's is of no use; the text says what is needed."""


class DriverRaised(NotJudged):
    """A method of the driver raised something; the cause is chained."""

    def __init__(self, method: str, err: BaseException) -> None:
        said, kind = error_text(err), type(err).__name__
        super().__init__(f"{method} raised {said if said.startswith(kind) else f'{kind}: {said}'}")
        self.err = err

    def at_length(self) -> str:
        """With the driver's own part of the traceback, unless it raised this on purpose."""
        if isinstance(self.err, DriverError):
            return str(self)
        frames = traceback.extract_tb(self.err.__traceback__)
        theirs = [frame for frame in frames if not is_ours(frame.filename)]
        lines = "".join(traceback.format_list(theirs)).rstrip()
        return f"{self}\n{lines}" if lines else str(self)


@contextmanager
def broken_by_errors(where: str, *allowed: type[BaseException]) -> Iterator[None]:
    """Errors of the driver inside break the rule; ``allowed`` errors only end the block."""
    try:
        yield
    except DriverRaised as raised:
        if not isinstance(raised.err, allowed):
            raise Broken(f"{where}{raised.at_length()}") from None


def is_ours(filename: str) -> bool:
    """Whether a line of code is no driver's: authors look for their own."""
    return filename.startswith(_OURS)


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


def not_judged(rule: Rule, err: NotJudged) -> str:
    """The failure of a test that never came to its rule."""
    see = "answers" if isinstance(err, DriverRaised) else rule.name
    return "\n".join(
        [
            _folded(f"The rule {rule.name} could not be looked at: ", f"{err}."),
            f"See {see} in {DOCUMENT}.",
        ]
    )


def _folded(first: str, text: str) -> str:
    indent = " " * len(first) if len(first) <= _INDENT else ""
    return textwrap.fill(
        first + text,
        _WIDTH,
        subsequent_indent=indent,
        break_long_words=False,
        break_on_hyphens=False,
    )
