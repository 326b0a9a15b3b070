"""The switch: who asks for this host to be disabled or enabled, and how the trait follows.

Any thread may ask.  What was asked is kept on disk first; then the loop, which alone
writes to Placement, makes the trait follow, and tries again soon where it can't.  The
jobs carry no value: each brings about what holds when it runs, so their order is of no
account.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace

from agent.loop import Loop
from agent.registry.checks import LONGEST, in_a_line
from agent.registry.record import AUTO, ServiceRecord
from agent.switching.standing import Standing, StandingFile, StandingUnreadable, standing_of
from agent.told.reports import Report
from drivers.loaded import words

LOG = logging.getLogger(__name__)

FIRST_RETRY = 1.0
"""Seconds; doubled each time, up to the interval between two periods."""
LONGEST_RETRY = 60.0

Write = Callable[[bool], Sequence[Report]]
"""Make the trait on every root say so; called in the loop's thread."""


@dataclass(slots=True)
class Switch:
    """Knows whether this host is disabled, and sees to it that Placement does."""

    file: StandingFile
    loop: Loop
    write: Write
    longest_retry: float = LONGEST_RETRY
    told_registry: Callable[[], object] = lambda: None
    """Called after each wish that the registry has yet to hear of."""
    written: Callable[[Sequence[Report]], object] = lambda _: None
    """Hears what came of writing, in the loop's thread."""
    standing: Standing = field(default_factory=Standing)
    waiting: str | None = None
    """Why the trait could not be written yet."""
    unkept: str | None = None
    """Why the status could not be kept on disk."""
    slack: float = 0.0
    """Seconds by which a change of the record may be heard late, and clocks may differ."""
    wall: Callable[[], float] = time.time
    _changed_at: float | None = None
    """When this process heard of the record's last change."""
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _tries: int = 0
    _retry_is_set: bool = False

    def load(self) -> None:
        """Remember what was last asked; a file that can't be read is as good as none."""
        try:
            self.standing = self.file.load()
        except StandingUnreadable as err:
            LOG.warning("This host's status is not known before the registry says: %s", err)

    @property
    def disabled(self) -> bool | None:
        """``None``: not known, so that the trait stays as it is."""
        return self.standing.disabled

    def ask(self, *, disabled: bool, reason: str | None = None) -> Future[list[Report]]:
        """An operator wants it so.  The future ends when Placement was written to, or not."""
        with self._lock:
            if self.standing.disabled != disabled or self.standing.is_auto:
                self._keep(self.standing.asked(disabled=disabled, reason=reason, by_program=False))
                LOG.info("This host is %s", self._words())
        self.told_registry()
        return self.loop.post(self._bring_about)

    def recorded(self, *, disabled: bool, version: int) -> Future[list[Report]]:
        """The record says so since that version.  The future is as that of :meth:`ask`.

        A call can be overtaken by a later one, or by a heartbeat that brought a later
        record: then it says nothing new.
        """
        with self._lock:
            if self.standing.precedes(version):
                self._changed_at = self.wall()
                self._keep(Standing(disabled, None, version))
                LOG.info("This host is %s", self._words())
        self.told_registry()
        return self.loop.post(self._bring_about)

    def follow(self) -> Future[list[Report]]:
        """Nobody wants anything new.  The future is as that of :meth:`ask`."""
        return self.loop.post(self._bring_about)

    def changed_after(self, sent: float) -> bool:
        """Whether the record was certainly changed after that time, in seconds since the epoch."""
        return self._changed_at is not None and sent < self._changed_at - self.slack

    def hypervisor_lost(self, why: str) -> None:
        """Disable, unless an operator has done so."""
        reason = in_a_line(f"{AUTO}{why}")[:LONGEST]
        with self._lock:
            if self.standing.disabled:
                return
            self._keep(self.standing.asked(disabled=True, reason=reason, by_program=True))
            LOG.warning("This host is %s", self._words())
        self.told_registry()
        self.loop.post(self._bring_about)

    def hypervisor_back(self) -> None:
        """Enable, if it was disabled because the hypervisor was lost."""
        with self._lock:
            if not self.standing.is_auto:
                return
            self._keep(self.standing.asked(disabled=False, reason=None, by_program=True))
            LOG.info("The hypervisor is back: this host is %s", self._words())
        self.told_registry()
        self.loop.post(self._bring_about)

    def adopt(self, record: ServiceRecord, seen: Standing) -> bool:
        """What the registry says holds now, unless something was asked since ``seen``."""
        with self._lock:
            if self.standing is not seen:
                return False
            found = standing_of(record, seen)
            if seen.record_version not in (None, record.version):
                self._changed_at = self.wall()
            changed = found.disabled != seen.disabled
            if found != seen:
                self._keep(found)
            if found.disabled or (changed and seen.disabled is not None):
                LOG.log(
                    logging.INFO if changed else logging.DEBUG,
                    "The registry says that this host is %s",
                    self._words(),
                )
        # A host that starts enabled is in no hurry: its first period does it.
        if changed and (found.disabled or seen.disabled is not None):
            self.loop.post(self._bring_about)
        return True

    def acknowledge(self, record_version: int) -> Standing:
        """The record has this version because of what was asked here; returns the standing."""
        with self._lock:
            self._keep(replace(self.standing, record_version=record_version))
            return self.standing

    def settle(self, *, found: bool) -> None:
        """At the first start: whether the roots carry the trait in Placement."""
        with self._lock:
            settled = self.standing.settled(found=found)
            if settled is None:
                return
            self._keep(settled)
            if found:
                LOG.warning("This host is %s, and stays so", self._words())
        self.told_registry()

    def period_done(self, reports: Sequence[Report]) -> None:
        """A period writes the trait as well."""
        if self.waiting is not None and all(_why_not(report) is None for report in reports):
            self.waiting, self._tries = None, 0

    def complaints(self) -> dict[str, str]:
        """What is not as it should be, by part."""
        found = {"trait": self.waiting, "status file": self.unkept}
        return {part: text for part, text in found.items() if text is not None}

    def _keep(self, standing: Standing) -> None:
        """A full disk stops nobody from disabling a host."""
        self.standing = standing
        try:
            self.file.keep(standing)
        except OSError as err:
            self.unkept = f"{self.file.path} can't be written: {err.strerror}"
            LOG.warning("The status holds until a restart only: %s", self.unkept)
        else:
            self.unkept = None

    def _bring_about(self) -> list[Report]:
        """In the loop's thread."""
        disabled = self.standing.disabled
        if disabled is None:
            return []
        reports = list(self.write(disabled))
        self._note(next((why for why in map(_why_not, reports) if why is not None), None))
        self.written(reports)
        return reports

    def _note(self, why_not: str | None) -> None:
        if why_not is None:
            self.waiting, self._tries = None, 0
            return
        self.waiting = f"COMPUTE_STATUS_DISABLED is not written yet: {why_not}"
        if not self._retry_is_set:
            self._retry_is_set = True
            self.loop.later(self._pause(), self._retry)

    def _pause(self) -> float:
        """Full jitter: what failed for many hosts at once must not come back at once."""
        longest = min(self.longest_retry, FIRST_RETRY * 2.0 ** min(self._tries, 16))
        self._tries += 1
        return random.uniform(0, longest)

    def _retry(self) -> None:
        self._retry_is_set = False
        if self.waiting is not None:
            self._bring_about()

    def _words(self) -> str:
        standing = self.standing
        status = "disabled" if standing.disabled else "enabled"
        return f"{status} ({standing.reason})" if standing.reason else status


def _why_not(report: Report) -> str | None:
    """Why this root may not have its trait as it should be."""
    if report.error is not None:
        return words(report.error)
    errors = [*report.failed.values(), *report.driver_errors.values()]
    return words(errors[0]) if errors else None
