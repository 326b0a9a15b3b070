"""Whether this host is disabled: the one object that knows, and that others subscribe to.

Any thread may report an event.  What follows from it is on disk first; then the loop, which
alone writes to Placement, makes the trait follow, and tries again soon where it can't.  The
jobs carry no value: each brings about what holds when it runs, so their order is of no
account.
"""

import logging
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from agent.loop import Loop
from agent.registry.checks import AUTO, LONGEST, in_a_line
from agent.registry.record import ServiceRecord
from agent.reporting.reports import Condition, Report
from agent.state import files
from agent.state.document import Unusable
from agent.switching.machine import (
    FOUND,
    Event,
    ServiceStatus,
    after,
    after_call,
    after_record,
)
from agent.switching.notices import Decided, Notice, PeriodDone, Written
from agent.switching.service_file import ServiceFile
from reportclient.plain_text import error_text
from reportclient.schedule import doubled

LOG = logging.getLogger(__name__)

VERSION_5, VERSION_6 = "5.13", "6.5"
"""Of the calls that are answered."""
FIRST_RETRY = 1.0
"""Seconds; doubled each time, up to the interval between two periods."""
LONGEST_RETRY = 60.0

Write = Callable[[bool, bool], Sequence[Report]]
"""Make the trait on every root say whether the host is disabled, which could not be done before
if the second one is true; called in the loop's thread."""

SAID: Mapping[Event, tuple[int, str]] = {
    Event.DISABLE: (logging.INFO, "This host is %s"),
    Event.ENABLE: (logging.INFO, "This host is %s"),
    Event.LOST: (logging.WARNING, "This host is %s"),
    Event.BACK: (logging.INFO, "The hypervisor is back: this host is %s"),
    Event.FOUND_DISABLED: (logging.WARNING, "This host is %s, and stays so"),
    Event.FOUND_ENABLED: (logging.DEBUG, "This host is %s"),
}
"""For the log, where the event changes the status."""


@dataclass(slots=True)
class HostStatus:
    """Knows whether this host is disabled, and sees to it that Placement does."""

    file: ServiceFile
    loop: Loop
    write: Write
    longest_retry: float = LONGEST_RETRY
    slack: float = 0.0
    """Seconds by which a change of the record may be heard late, and clocks may differ."""
    wall: Callable[[], float] = time.time
    current: ServiceStatus = field(default_factory=ServiceStatus)
    waiting: str | None = None
    """Why the trait could not be written yet."""
    unkept: str | None = None
    """Why the status could not be kept on disk."""
    registry_lost: str | None = None
    """Why the registry does not answer."""
    registered: threading.Event = field(default_factory=threading.Event)
    """Set while the registry has what was decided here."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    """Held while the status changes."""
    _listeners: list[Callable[[Notice], object]] = field(default_factory=list)
    _changed_at: float | None = None
    """When this process heard of the record's last change."""
    _tries: int = 0
    _retry_is_set: bool = False

    def load(self) -> None:
        """Remember what was last decided; a file that can't be read is as good as none."""
        try:
            self.current = self.file.load()
        except Unusable as err:
            LOG.warning("This host's status is not known before the registry says: %s", err)

    @property
    def disabled(self) -> bool | None:
        """``None``: not known, so that the trait stays as it is."""
        return self.current.disabled

    def subscribe(self, listener: Callable[[Notice], object]) -> None:
        """Have ``listener`` called with each notice, in the thread in which it happens."""
        self._listeners.append(listener)

    def publish(self, notice: Notice) -> None:
        """Tell all who subscribed."""
        if isinstance(notice, Decided):
            self.registered.clear()
        for listener in self._listeners:
            listener(notice)

    # -- events

    def ask(self, *, disabled: bool, reason: str | None = None) -> Future[list[Report]]:
        """A caller wants it so.  The future ends when Placement was written to, or not."""
        self._move(Event.DISABLE if disabled else Event.ENABLE, reason)
        return self._brought_about()

    def recorded(self, *, disabled: bool, version: int) -> Future[list[Report]]:
        """The record says so since that version.  The future is as that of :meth:`ask`.

        A call can be overtaken by a later one, or by a heartbeat that brought a later
        record: then it says nothing new.
        """
        with self.lock:
            changed = after_call(self.current, disabled=disabled, version=version)
            if changed is not self.current:
                self._changed_at = self.wall()
                self._keep(changed)
                LOG.info("This host is %s", changed)
        return self._brought_about()

    def follow(self) -> Future[list[Report]]:
        """Nobody wants anything new.  The future is as that of :meth:`ask`."""
        return self.loop.post(self._bring_about)

    def hypervisor_lost(self, why: str) -> None:
        """Disable, unless the host is disabled."""
        if self._move(Event.LOST, in_a_line(f"{AUTO}{why}")[:LONGEST]):
            self._brought_about()

    def hypervisor_back(self) -> None:
        """Enable, if it was disabled because the hypervisor was lost."""
        if self._move(Event.BACK):
            self._brought_about()

    def settle(self, *, found: bool) -> None:
        """At the first start: whether the roots carry the trait in Placement."""
        event = Event.FOUND_DISABLED if found else Event.FOUND_ENABLED
        if self._move(event, FOUND if found else None):
            self.publish(Decided())

    def period_done(self, reports: Sequence[Report], found: bool | None) -> None:
        """``found``: whether the roots carry the trait, where that is known."""
        if self.unkept is not None:
            with self.lock:
                self._keep(self.current)
        if self.waiting is not None and all(_why_not(report) is None for report in reports):
            self.waiting, self._tries = None, 0
        if found is not None:
            self.settle(found=found)
        self.publish(PeriodDone(reports))

    # -- the registry's side

    def adopt(self, record: ServiceRecord, seen: ServiceStatus) -> bool:
        """Adopt the registry's record, unless the status was changed since ``seen``."""
        with self.lock:
            if self.current is not seen:
                return False
            new = after_record(seen, record)
            if seen.record_version not in (None, record.version):
                self._changed_at = self.wall()
            changed = new.disabled != seen.disabled
            if new != seen:
                self._keep(new)
            if new.disabled or (changed and seen.disabled is not None):
                level = logging.INFO if changed else logging.DEBUG
                LOG.log(level, "The registry says that this host is %s", new)
        # A host that starts enabled is in no hurry: its first period does it.
        if changed and (new.disabled or seen.disabled is not None):
            self.loop.post(self._bring_about)
        return True

    def acknowledge(self, record_version: int) -> ServiceStatus:
        """The record has this version because of what was decided here; returns the status."""
        with self.lock:
            self._keep(replace(self.current, record_version=record_version))
            return self.current

    def registry_answers(self) -> None:
        """Note that the registry answers and has the status."""
        self.registry_lost = None
        if self.current.acknowledged:
            self.registered.set()
            if not self.current.acknowledged:  # decided between the two lines above
                self.registered.clear()

    def in_step(self, within: float) -> bool:
        """Wait until the registry has what was decided here; not for one that is away."""
        return self.registered.wait(0 if self.registry_lost else within)

    def changed_after(self, sent: float) -> bool:
        """Whether the record was certainly changed after that time, in seconds since the epoch."""
        return self._changed_at is not None and sent < self._changed_at - self.slack

    # -- what follows

    def conditions(self) -> tuple[Condition, ...]:
        """Return the conditions."""
        wrong = {"trait": self.waiting, "status file": self.unkept}
        return tuple(Condition(text, part) for part, text in wrong.items() if text is not None)

    def _move(self, event: Event, reason: str | None = None) -> bool:
        with self.lock:
            new = after(self.current, event, reason)
            if new is self.current:
                return False
            self._keep(new)
            level, text = SAID[event]
            LOG.log(level, text, new)
        return True

    def _keep(self, status: ServiceStatus) -> None:
        """A full disk stops nobody from disabling a host; it is tried again after each period."""
        self.current = status
        try:
            self.file.keep(status)
        except OSError as err:
            unkept = f"{self.file.path} can't be written: {files.describe_error(err)}"
            if unkept != self.unkept:
                LOG.warning("The status holds until a restart only: %s", unkept)
            self.unkept = unkept
        else:
            self.unkept = None

    def _brought_about(self) -> Future[list[Report]]:
        self.publish(Decided())
        return self.loop.post(self._bring_about)

    def _bring_about(self, *, again: bool = False) -> list[Report]:
        """In the loop's thread."""
        disabled = self.current.disabled
        if disabled is None:
            return []
        reports = list(self.write(disabled, again))
        self._note(next((why for why in map(_why_not, reports) if why is not None), None))
        self.publish(Written(reports))
        return reports

    def _note(self, why_not: str | None) -> None:
        if why_not is None:
            self.waiting, self._tries = None, 0
            return
        self.waiting = f"COMPUTE_STATUS_DISABLED is not written yet: {why_not}"
        if not self._retry_is_set:
            self._retry_is_set = True
            self.loop.later(self.next_pause(), self._retry)

    def next_pause(self) -> float:
        """Return the seconds until the next try, at most twice as many as before.

        Full jitter: hosts that failed together do not come back together.
        """
        longest = doubled(FIRST_RETRY, self._tries, self.longest_retry)
        self._tries += 1
        return random.uniform(0, longest)

    def _retry(self) -> None:
        self._retry_is_set = False
        if self.waiting is not None:
            self._bring_about(again=True)


def _why_not(report: Report) -> str | None:
    """Why this root may not have its trait as it should be."""
    if report.error is not None:
        return error_text(report.error)
    errors = [*report.failed.values(), *report.driver_errors.values()]
    return error_text(errors[0]) if errors else None
