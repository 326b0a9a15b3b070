"""A fact of the host: queries the host, and builds a report from the answer.

Each fact is a class in a file of its own; its options are its fields.  ``docs/libvirt/facts.rst``
says how to add one.

A source is one query to the host.  ``Sources`` keeps each source's last answer, which is used if
the source fails or is slow; ``failed`` names it until it answers again.  An answer whose changes
libvirt reports as events is cached until such an event, for at most ``MAX_CACHE_AGE`` seconds,
since events can get lost.

What may not be loaded, awake or mounted yet is unknown while it is missing, not absent:
``Sources.late`` names it, and what was reported of it before stays.
"""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar
from xml.etree.ElementTree import Element

from drivers.api import DriverContext
from drivers.errors import DriverNotReady
from drivers.inventory import CurrentInventory
from drivers.libvirt.connection.host import Host, LibvirtCall
from drivers.libvirt.connection.session import unusable_answer
from drivers.libvirt.facts.topology import Cell
from drivers.libvirt.tree.reported import LATE, HostReport, Observed

MAX_CACHE_AGE = 300.0
"""Seconds after which an answer is fetched again without an event."""

Part = tuple[str, str]
"""What may come late: what it is, and of what, such as ``("VFs", "0000:81:00.0")``."""

NOT_FOUND_ERRORS = ("VIR_ERR_NO_NODE_DEVICE", "VIR_ERR_NO_STORAGE_POOL", "VIR_ERR_NO_DOMAIN")

T = TypeVar("T")
D = TypeVar("D")


@dataclass(frozen=True, slots=True)
class ListedDocuments(Generic[T]):
    """Parsed documents by the object's name; ``unread``: why there is none, by name."""

    documents: dict[str, T] = field(default_factory=dict)
    unread: dict[str, str] = field(default_factory=dict)

    def notes(self, kind: str) -> dict[str, str]:
        """Return a note on each document that can't be read; ``kind`` begins its key."""
        return {f"{kind} {name}": f"can't be read: {why}" for name, why in self.unread.items()}


def read_documents(
    connection: Any,
    binding: Any,
    objects: Iterable[Any],
    parse: Callable[[str], T],
) -> ListedDocuments[T]:
    """Return the parsed documents of ``objects``, without those that are gone.

    Runs in the worker thread that holds the connection.  A document that can't be read, or for
    which ``parse`` raises ``ValueError``, does not affect the others.
    """
    not_found = {getattr(binding, name) for name in NOT_FOUND_ERRORS}
    listed: ListedDocuments[T] = ListedDocuments()
    for number, item in enumerate(objects):
        name = f"number {number}"  # until its name is read: decoding may fail
        try:
            name = str(item.name())
            listed.documents[name] = parse(str(item.XMLDesc(0)))
        except ValueError as err:
            listed.unread[name] = unusable_answer(err)
        except binding.libvirtError as err:
            if not connection.isAlive():
                raise
            if err.get_error_code() in not_found:
                continue
            listed.unread[name] = str(err.get_error_message() or err)
    return listed


class Sources:
    """Queries a host for the facts, in one thread; ``failed`` and ``durations`` from any thread.

    ``capabilities`` is libvirt's host capabilities document, empty until it was read; ``cells`` are
    the NUMA cells in it, ``None`` until they could be read.
    """

    def __init__(self, host: Host, clock: Callable[[], float] = time.monotonic) -> None:
        self.host = host
        self.capabilities = Element("nothing")
        self.cells: tuple[Cell, ...] | None = None
        self._clock = clock
        self._cached: dict[str, tuple[int, float]] = {}
        self._last_answers: dict[str, Any] = {}
        self._last_documents: dict[str, dict[str, Any]] = {}
        self._failed: dict[str, str] = {}
        self._durations: dict[str, float] = {}
        self._last_present: dict[Part, float] = {}

    def begin_period(self) -> None:
        """Forget the failures of the last period."""
        self._failed.clear()

    def call_libvirt(
        self, what: str, call: LibvirtCall[T], until_event: str | None = None
    ) -> T | None:
        """Return libvirt's answer, or the last one; ``None`` if there was never one."""
        return self.fetch_or_default(
            what, lambda: self.host.call_libvirt(what, call), None, until_event
        )

    def read_files(self, name: str, what: str, job: Callable[[Path], T], default: D) -> T | D:
        """Return what ``job`` reads from this machine's files, the last result, or ``default``.

        ``name`` is the name of the source, ``what`` describes the files in errors.
        """
        return self.fetch_or_default(name, lambda: self.host.read_files(what, job), default)

    def read_part(self, name: str, command: str, parse: Callable[[], T], default: D) -> T | D:
        """Return what ``parse`` reads in a part of a document, the last result, or ``default``.

        Such a part is a source of its own, which fails if ``parse`` raises ``ValueError``;
        ``command`` shows the document.
        """

        def fetch() -> T:
            try:
                return parse()
            except ValueError as err:
                raise DriverNotReady(f"`virsh {command}` can't be right: {err}") from None

        return self.fetch_or_default(name, fetch, default)

    def list_documents(
        self, topic: str, call: LibvirtCall[ListedDocuments[T]], *, optional: bool = False
    ) -> ListedDocuments[T] | None:
        """Return the documents of a topic; read over a side connection, cached until an event.

        For a document that is listed but can't be read, its last version is returned.  ``None``:
        the documents could never be listed.  ``optional``: without the call there are none; else a
        package of libvirt's may be missing, and what it would list is unknown.
        """

        def fetch() -> ListedDocuments[T]:
            if optional:
                return self.host.call_if_supported(topic, call, ListedDocuments(), isolated=True)
            return self.host.call_isolated(topic, call)

        now = self.fetch_or_default(topic, fetch, None, until_event=topic)
        if now is None:
            return None
        if now.unread:
            self._cached.pop(topic, None)
        previous = self._last_documents.get(topic, {})
        unread = {name: previous[name] for name in now.unread if name in previous}
        self._last_documents[topic] = {**unread, **now.documents}
        return ListedDocuments(dict(self._last_documents[topic]), now.unread)

    def late(self, parts: Mapping[Part, bool]) -> frozenset[Part]:
        """Return the parts that are missing, but may still come; ``parts``: whether each is there.

        The clock begins at the boot, as Linux's monotonic clock does.
        """
        now = self._clock()
        self._last_present |= {part: now for part, is_there in parts.items() if is_there}
        return frozenset(
            part
            for part, is_there in parts.items()
            if not is_there and now - self._last_present.get(part, 0.0) < LATE
        )

    def fetch(self, name: str, fetch: Callable[[], T], until_event: str | None = None) -> T:
        """Return the result of ``fetch``, or the last one if it fails.

        ``until_event`` is the topic of the events until which the result is cached; ``None``: it
        is not cached.

        :raises DriverNotReady: it failed, and has never succeeded.
        """
        # Counted before the fetch, so that an event during the fetch ends the caching.
        count = None if until_event is None else self.host.events.count(until_event)
        started = self._clock()
        cached_count, cached_at = self._cached.get(name, (-1, 0.0))
        if cached_count != count or started - cached_at >= MAX_CACHE_AGE:
            self._cached.pop(name, None)
            try:
                self._last_answers[name] = fetch()
            except DriverNotReady as err:
                self._failed[name] = str(err)
                if name not in self._last_answers:
                    raise
            else:
                self._failed.pop(name, None)
                if count is not None:
                    self._cached[name] = (count, started)
            finally:
                self._durations[name] = self._clock() - started
        last: T = self._last_answers[name]
        return last

    def fetch_or_default(
        self, name: str, fetch: Callable[[], T], default: D, until_event: str | None = None
    ) -> T | D:
        """Like ``fetch``, but return ``default`` instead of raising."""
        try:
            return self.fetch(name, fetch, until_event)
        except DriverNotReady:
            return default

    def failed(self) -> dict[str, str]:
        """Return the sources whose last fetch failed, and why."""
        return dict(self._failed)

    def durations(self) -> dict[str, float]:
        """Return the seconds that the last fetch of each source took."""
        return dict(self._durations)


@dataclass(frozen=True, slots=True)
class ReportContext:
    """Inputs of a report beside the answer.

    ``cells``: NUMA cells, ``None`` if they could never be read.  ``observed``: inventory in
    Placement of this host's providers, by name.  ``by_cell``: whether NUMA cells are providers.
    ``disk_shared``: whether a sharing provider has DISK_GB.
    """

    node: str
    capabilities: Element
    cells: tuple[Cell, ...] | None = None
    observed: Observed = field(default_factory=dict)
    by_cell: bool = False
    disk_shared: bool = False

    @property
    def current(self) -> CurrentInventory:
        """The root's inventory in Placement."""
        return self.observed.get(self.node, {})


class Fact(Protocol):
    """A query to the host, and the part of the report that it results in."""

    @property
    def name(self) -> str:
        """The fact's name, and that of the source that asserts its inventory of the root."""

    @classmethod
    def from_context(cls, context: DriverContext) -> Self:
        """Return the fact with its options.

        :raises ValueError: an option is invalid; the message names it.
        """

    def query_host(self, sources: Sources) -> Any:
        """Return the answer as plain values; unknown values are ``None`` or left out."""

    def build_report(self, answer: Any, context: ReportContext, /) -> HostReport:
        """Return the report for an answer of ``query_host``.  No I/O."""
