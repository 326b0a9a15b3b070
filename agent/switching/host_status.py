"""The status of this host: the loop that carries out the effects of ``machine.py``.

Any thread may report an event.  The new status is saved to disk first; then a job of the loop,
which alone writes to Placement, sets or removes the trait, and retries soon if it can't.  A job
writes the status at the time it runs, so the order of jobs does not matter.

The status is saved in ``service.json``: for restarts while the registry is away, and, on a host
without a registry, as the only record of the status.  There commands change the document, too, so
that each change is made under its lock.
"""

import logging
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.loop import Loop
from agent.registry.checks import StatusChange
from agent.registry.record import ServiceRecord
from agent.reporting.condition import DRIVERS, WRITE, Condition, Severity, of_disk
from agent.reporting.reports import ENDS_PERIOD, Report
from agent.state import files
from agent.state.document import Damaged, Document, Unusable
from agent.state.lock import lock_file
from agent.switching.machine import (
    REASON_FOUND,
    UNTOUCHED,
    Effect,
    Event,
    ServiceStatus,
    after,
    after_record,
    with_next_version,
)

LOG = logging.getLogger("compute_agent.registry")

VERSION_5, VERSION_6 = "5.13", "6.5"
"""The versions of Nova's compute RPC API that are answered."""
FILE_NAME = "service.json"
LOCKED_WITHIN = 10.0
"""Seconds to wait for another process that changes the document."""
FIRST_RETRY, LATER_RETRY = 1.0, 60.0
"""Seconds until a retry, at most.  A period writes the trait, too."""

Write = Callable[[bool, bool], Sequence[Report]]
"""Sets the trait on all roots (first argument true) or removes it.  The second argument: whether
this is a retry.  Called in the loop's thread."""

LOG_LINES: Mapping[Event, tuple[int, str]] = {
    Event.LOST: (logging.WARNING, "This host is %s"),
    Event.BACK: (logging.INFO, "The hypervisor is back: this host is %s"),
    Event.FOUND_DISABLED: (logging.WARNING, "This host is %s, until an operator enables it"),
}
"""Log level and text of events that change the status; of others: INFO, "This host is %s"."""


def status_document(state_path: Path) -> Document:
    """Return the document of the agent with this state directory."""
    return Document(state_path / FILE_NAME)


def saved_status(document: Document) -> ServiceStatus:
    """Return the saved status; an unknown one if there is no file.

    :raises agent.state.document.Unusable: naming the file.
    """
    return document.read(_parsed) or ServiceStatus()


def change_saved_status(state_path: Path, change: StatusChange) -> None:
    """Disable or enable a host without a registry; its agent follows, or starts with that.

    :raises agent.state.document.Unusable: the document can't be read or written.
    """
    document = status_document(state_path)
    try:
        with lock_file(document.path, LOCKED_WITHIN):
            version = saved_status(document).record_version
            status = ServiceStatus(change.disabled, change.reason, version, acknowledged=False)
            document.save(asdict(with_next_version(status)))
    except OSError as err:
        why = files.describe_error(err)
        raise Unusable(f"{document.path} can't be written: {why}") from err


def _parsed(fields: Mapping[str, Any]) -> ServiceStatus:
    if not isinstance(fields["disabled"], bool | None):
        raise TypeError(f"disabled is {fields['disabled']!r}")
    if not isinstance(fields["record_version"], int | None):
        raise TypeError(f"record_version is {fields['record_version']!r}")
    return ServiceStatus(**{name: fields[name] for name in asdict(ServiceStatus())})


@dataclass(slots=True)
class HostStatus:
    """The status of this host; it is saved, and written to Placement."""

    document: Document
    """``service.json``."""
    loop: Loop
    write: Write
    alone: bool = False
    """Whether there is no registry: then ``service.json`` is the record of this host."""
    spread: Callable[[], float] = lambda: 0.0
    """Returns the seconds over which the hosts of a fleet follow changes of their records."""
    current: ServiceStatus = field(default_factory=ServiceStatus)
    waiting: Condition | None = None
    """Why the trait is not written yet."""
    registry_lost: str | None = None
    """Why the registry does not answer."""
    registered: threading.Event = field(default_factory=threading.Event)
    """Set while the registry has the status of this host."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while the status changes."""
    on_decided: Callable[[], object] = lambda: None
    """Called when the status may have changed, and the registry may not have it yet."""
    on_written: Callable[[Sequence[Report]], object] = lambda _: None
    """Called in the loop's thread with the reports of writing the trait."""
    on_period: Callable[[], object] = lambda: None
    """Called in the loop's thread after each period."""

    @property
    def disabled(self) -> bool | None:
        """Whether the host is disabled; ``None`` if unknown: then the trait is left as it is."""
        return self.current.disabled

    def load_status(self) -> None:
        """Load the saved status; it is unknown if the document can't be read, which is a problem.

        Without a registry a host that has no status yet begins with one, which commands can change.
        """
        try:
            self.current = self._read_saved() or self.current
        except Unusable as err:
            LOG.warning("The status of this host is unknown: %s", err)
            self.document.problem = str(err)
            return
        if self.alone and self.disabled is None:
            self._keep(ServiceStatus(record_version=UNTOUCHED))

    def follow_saved(self) -> None:
        """On a host without a registry: take over the status that a command has saved last."""
        with self.lock:
            try:
                saved = self._read_saved()
            except Unusable:  # a later change of the status reports it
                return
            if saved is None or (saved.record_version or 0) < (self.current.record_version or 0):
                self._keep(self.current)  # it was lost, or the disk was full
            elif saved != self.current:
                self.current, self.document.problem = saved, ""
                LOG.info("This host is %s, as a command has saved", saved)
                self._carry_out(Effect.ALL)

    def _read_saved(self) -> ServiceStatus | None:
        """Return the saved status; ``None`` without a document; a damaged one is set aside.

        So is a copy: the host may have been disabled since.

        :raises Unusable: the document can't be read now, or a later version wrote it.
        """
        try:
            return self.document.read(_parsed, no_copy=True)
        except Damaged as err:
            LOG.warning("%s%s; it is made again", err, files.move_damaged(self.document.path))
            return None

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Hold the locks of the status, which begins with what a command has saved last."""
        with self.lock, ExitStack() as held:
            if self.alone:
                with suppress(OSError):  # a command that hangs delays a change, and prevents none
                    held.enter_context(lock_file(self.document.path, LOCKED_WITHIN))
                self.follow_saved()
            yield

    # -- events

    def handle(
        self, event: Event, reason: str | None = None, version: int | None = None
    ) -> Future[list[Report]]:
        """Change the status, save it, and begin what follows; see :func:`after`.

        The future ends with the try to write the trait.
        """
        with self._changing():
            new, effects = after(self.current, event, reason, version)
            if new is not self.current:
                self._keep(with_next_version(new) if self.alone else new)
                level, text = LOG_LINES.get(event, (logging.INFO, "This host is %s"))
                LOG.log(level, text, self.current)
        return self._carry_out(effects)

    def period_done(self, reports: Sequence[Report], has_trait: bool | None) -> None:
        """Note the reports of a period; ``has_trait``: whether the roots have it, if known."""
        if self.document.problem and self.disabled is not None:
            with self._changing():
                self._keep(self.current)
        if self.waiting is not None:
            self._note_written(reports)
        if has_trait is not None:
            found = Event.FOUND_DISABLED if has_trait else Event.FOUND_ENABLED
            self.handle(found, REASON_FOUND if has_trait else None)
        self.on_period()

    # -- the registry's side

    def adopt(self, record: ServiceRecord, expected: ServiceStatus) -> bool:
        """Adopt the registry's record, unless the status is not the ``expected`` one."""
        with self.lock:
            if self.current is not expected:
                return False
            new, effects = after_record(expected, record)
            if new is not expected:
                self._keep(new)
        if str(new) != str(expected):
            LOG.info("This host is %s, as its service record says", new)
        self._carry_out(effects)
        return True

    def acknowledge(self, record_version: int) -> ServiceStatus:
        """Note that the record has the status, in this version; return the status."""
        with self.lock:
            self._keep(replace(self.current, record_version=record_version))
            return self.current

    def registry_answers(self) -> None:
        """Note that the registry answers and has the status."""
        self.registry_lost = None
        with self.lock:
            if self.current.acknowledged:
                self.registered.set()

    def in_step(self, within: float) -> bool:
        """Wait until the registry has this status; do not wait for a registry that is lost."""
        return self.registered.wait(0 if self.registry_lost else within)

    # -- what follows

    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions of the trait and of the status file."""
        waiting = () if self.waiting is None else (self.waiting,)
        problem = self.document.problem
        return (*waiting, of_disk(problem, "status file")) if problem else waiting

    def _keep(self, status: ServiceStatus) -> None:
        """Save a status; if that fails it holds all the same, and is saved after a period."""
        self.current, otherwise = status, "the status of this host would be lost at a restart"
        self.document.save_or_warn(asdict(status), otherwise)

    def _carry_out(self, effects: Effect) -> Future[list[Report]]:
        if Effect.REGISTER in effects:
            self.registered.clear()
            self.on_decided()
        if Effect.WRITE_SPREAD in effects:
            self.loop.later(random.uniform(0, self.spread()), self._write_trait)
        if Effect.WRITE in effects:
            return self.loop.submit(self._write_trait)
        written = Future[list[Report]]()
        written.set_result([])
        return written

    def _write_trait(self, *, retry: bool = False) -> list[Report]:
        """Set or remove the trait, in the loop's thread; if that fails, retry after a pause.

        The pause is random, so that hosts that failed together spread out.  ``retry``: this is one.
        """
        disabled = self.current.disabled
        if disabled is None:
            return []
        reports = list(self.write(disabled, retry))
        self._note_written(reports)
        if self.waiting is not None:
            longest = LATER_RETRY if retry else FIRST_RETRY
            self.loop.later(random.uniform(0, longest), self._retry)
        self.on_written(reports)
        return reports

    def _note_written(self, reports: Sequence[Report]) -> None:
        kinds = (*ENDS_PERIOD, WRITE, DRIVERS)  # these may have kept it from being written
        found = [it for each in reports for it in each.conditions if it.kind in kinds]
        failed = (it for it in found if it.severity is Severity.ERROR)
        why = min(failed, key=lambda it: kinds.index(it.kind), default=None)
        self.waiting = None
        if why is not None:
            text = f"COMPUTE_STATUS_DISABLED is not written yet: {why.text}"
            self.waiting = Condition(text, why.next_step, "trait")

    def _retry(self) -> None:
        if self.waiting is not None:
            self._write_trait(retry=True)
