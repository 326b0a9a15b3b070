"""A fact of the host: what is asked, how the answer is judged, and so what is asserted.

Each is a class in one file, with the options that it reads as fields.  ``docs/libvirt/facts.rst``
says how to add one.

What is asked through ``Sources`` is remembered for when it can't be answered.  A source that
fails or is slow degrades its own part: the last answer holds, and the source is named until it
answers again.  An answer about which events would tell is kept until one does, and for ``SLOW``
seconds at most: events get lost too.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, Self, TypeVar
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.errors import DriverNotReady
from drivers.inventory import CurrentInventory
from drivers.libvirt.connection.host import Host, Question
from drivers.libvirt.connection.listed import Listed
from drivers.libvirt.facts.numa import Observed
from drivers.libvirt.tree.reported import HostReport

SLOW = 300.0
"""Seconds after which what events cover is asked for again all the same."""

T = TypeVar("T")
D = TypeVar("D")


class Sources:
    """A host as facts ask it.  For one thread at a time; ``failed`` and ``took`` for any.

    ``capabilities`` is libvirt's document about the host, empty where it was never told.
    """

    def __init__(self, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self.host = host
        self.capabilities = Element("nothing")
        self._clock = clock
        self._kept: dict[str, tuple[int, float]] = {}
        self._answers: dict[str, Any] = {}
        self._listed: dict[str, dict[str, str]] = {}
        self._failed: dict[str, str] = {}
        self._took: dict[str, float] = {}

    def begin(self) -> None:
        """A new period: what is not asked in it has not failed."""
        self._failed.clear()

    def ask(self, what: str, question: Question[T], until: str | None = None) -> T | None:
        """Return libvirt's answer, or its last one; ``None`` if there was never one."""
        return self.read_or(what, lambda: self.host.ask(what, question), None, until)

    def on_files(self, name: str, what: str, job: Callable[[Path], T], otherwise: D) -> T | D:
        """Return what ``job`` reads from this machine's files; ``what`` names them in errors."""
        return self.read_or(name, lambda: self.host.on_files(what, job), otherwise)

    def listed(self, topic: str, question: Question[Listed]) -> Listed | None:
        """All things of a topic, over a side connection, kept until an event tells of one.

        One that can't be read is as it was, for as long as it is listed.  ``None``: they could
        never be listed.
        """
        now = self.read_or(
            topic,
            lambda: self.host.ask_over_side_connection(topic, question, Listed()),
            None,
            until=topic,
        )
        if now is None:
            return None
        if now.unread:
            self._kept.pop(topic, None)
        last = self._listed.get(topic, {})
        old = {one: last[one] for one in now.unread if one in last}
        self._listed[topic] = {**old, **now.documents}
        return Listed(dict(self._listed[topic]), now.unread)

    def read(self, name: str, question: Callable[[], T], until: str | None = None) -> T:
        """The answer, or the last one; kept until the topic ``until`` changes.

        :raises DriverNotReady: there has never been one.
        """
        # Counted before it is asked: what changes meanwhile is asked for again.
        count = None if until is None else self.host.events.count(until)
        if self._is_kept(name, count):
            kept: T = self._answers[name]
            return kept
        started = self._clock()
        self._kept.pop(name, None)
        try:
            self._answers[name] = question()
        except DriverNotReady as err:
            self._failed[name] = str(err)
            if name not in self._answers:
                raise
        else:
            self._failed.pop(name, None)
            if count is not None:
                self._kept[name] = (count, started)
        finally:
            self._took[name] = self._clock() - started
        last: T = self._answers[name]
        return last

    def read_or(
        self, name: str, question: Callable[[], T], otherwise: D, until: str | None = None
    ) -> T | D:
        """Like ``read``; ``otherwise`` if there was never an answer."""
        try:
            return self.read(name, question, until)
        except DriverNotReady:
            return otherwise

    def failed(self) -> dict[str, str]:
        """Sources whose last question failed, and why."""
        return dict(self._failed)

    def never_answered(self) -> frozenset[str]:
        """Sources that have been asked, and nothing is known from them."""
        return frozenset(name for name in self._failed if name not in self._answers)

    def took(self) -> dict[str, float]:
        """Seconds that each source took the last time."""
        return dict(self._took)

    def _is_kept(self, name: str, count: int | None) -> bool:
        if count is None or name not in self._kept:
            return False
        then, at = self._kept[name]
        return then == count and self._clock() - at < SLOW


@dataclass(frozen=True, slots=True)
class Subject:
    """The input of a judgement; ``observed`` are this host's providers in Placement, by name.

    ``by_cell``: NUMA cells are providers; ``disk_shared``: a sharing provider has a disk for it.
    """

    node: str
    capabilities: Element
    observed: Observed = field(default_factory=dict)
    by_cell: bool = False
    disk_shared: bool = False

    @property
    def current(self) -> CurrentInventory:
        """The root's inventory, as Placement has it."""
        return self.observed.get(self.node, {})


class Fact(Protocol):
    """``name`` is the source whose word its inventory of the root is."""

    @property
    def name(self) -> str:
        """The fact's name in ``degraded`` and the ledger."""

    @classmethod
    def of(cls, context: DriverContext) -> Self:
        """Return the fact by the options.  :raises ValueError: naming the wrong one."""

    def ask(self, sources: Sources) -> Any:
        """The answer, as plain values; what can't be told is ``None``, or left out."""

    def judge(self, answer: Any, of: Subject, /) -> HostReport:
        """Return the judgement.  Pure."""


Answers = Mapping[str, Any]
"""By the fact's name."""
