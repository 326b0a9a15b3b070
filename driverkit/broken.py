"""Exceptions for the results of a judge, with texts for the driver's author."""

import textwrap
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from computectl.shared.screen import folded
from driverkit.rulebook import DOCUMENT, Rule
from drivers.errors import DriverError, DriverFault
from reportclient.plain_text import error_text

_WIDTH = 88
_INDENT = 6
_ROOT = Path(__file__).parents[1]
_PARTS = ("agent", "driverkit", "drivers/deadline.py", "drivers/loaded.py", "reportclient")
_OURS = tuple(str(_ROOT / part) for part in _PARTS)


class Broken(Exception):
    """The driver breaks the rule; the text shows the evidence, provider by provider."""


class Hung(Broken):
    """A method has not returned in time; the driver can't be called any more."""


class Inapplicable(Exception):
    """The rule does not apply to this driver or test; the text says why."""


_FIXTURES = {
    "lose_backend": "a callable that breaks the backend, and returns one that repairs it",
    "lose_device": "a callable that makes a device vanish",
    "make_big_driver": "a callable that creates a driver of as many devices as it is told",
    "reshape_case": "a tree as an earlier release of the driver reported it, and allocations",
}


def missing(fixture: str) -> str:
    """Return what an author has to add for the rules that need this fixture."""
    what = f"to judge it, add the fixture {fixture}, {_FIXTURES[fixture]}"
    return f"{what}, to your test class, and name its file with --fixtures ({DOCUMENT})"


class NotJudged(Exception):
    """The rule could not be judged, as with a fixture that can't be used; the text says why."""


class DriverRaised(NotJudged):
    """A method of the driver raised an exception, ``err``."""

    def __init__(self, method: str, err: BaseException) -> None:
        if isinstance(err, DriverFault) and err.__cause__ is not None:
            err = err.__cause__
        text, kind = error_text(err), type(err).__name__
        super().__init__(f"{method} raised {text if text.startswith(kind) else f'{kind}: {text}'}")
        self.err = err

    def at_length(self) -> str:
        """Return the text with the driver's part of the traceback, if it is no DriverError."""
        if isinstance(self.err, DriverError):
            return str(self)
        frames = traceback.extract_tb(self.err.__traceback__)
        theirs = [frame for frame in frames if not is_ours(frame.filename)]
        lines = "".join(traceback.format_list(theirs)).rstrip()
        return f"{self}\n{lines}" if lines else str(self)


@contextmanager
def broken_by_errors(where: str, *allowed: type[BaseException]) -> Iterator[None]:
    """Turn the driver's exceptions in the block into Broken; ``allowed`` ones only end it."""
    try:
        yield
    except DriverRaised as raised:
        if not isinstance(raised.err, allowed):
            raise Broken(f"{where}{raised.at_length()}") from None


def is_ours(filename: str) -> bool:
    """Whether a file is the agent's or the kit's, and so not the driver's."""
    return filename.startswith(_OURS)


def explained(rule: Rule, seen: str) -> str:
    """Return a failed test's text: the rule, the evidence, why it matters, how to mend it."""
    return "\n".join(
        [
            folded(f"The driver breaks the rule {rule.name}: {rule.says}", _WIDTH, 0),
            "",
            textwrap.indent(seen, "    "),
            "",
            folded(f"Why:  {rule.why}", _WIDTH, _INDENT),
            folded(f"Mend: {rule.mend}", _WIDTH, _INDENT),
            f"More: {DOCUMENT}, {rule.name}",
        ]
    )


def not_judged(rule: Rule, err: NotJudged) -> str:
    """Return the text of a test that could not judge its rule."""
    see = "answers" if isinstance(err, DriverRaised) else rule.name
    text = f"The rule {rule.name} could not be judged: {' '.join(str(err).split())}."
    return f"{folded(text, _WIDTH, 0)}\nSee {see} in {DOCUMENT}."
