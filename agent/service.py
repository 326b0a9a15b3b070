"""The running service: its drivers opened and closed, its periods told to whoever listens."""

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from agent.nodes.nodes import Nodes
from agent.reporting.conditions import Condition, errors
from agent.reporting.narrator import Narrator
from agent.reporting.reports import Report
from agent.reporting.systemd import Systemd
from agent.switching.host_status import HostStatus
from agent.switching.notices import Notice, Written
from drivers.api import Lifecycle, Switched
from drivers.deadline import DriverHangs
from drivers.errors import DriverError, DriverNotReady
from drivers.loader import LoadedDriver
from reportclient.plain_text import error_text

LOG = logging.getLogger(__name__)

Listener = Callable[[Sequence[Report]], None]


@dataclass(slots=True)
class Service:
    """All roots of this host, period by period."""

    host: str
    nodes: Nodes
    systemd: Systemd
    stop: Callable[[], bool]
    status: HostStatus | None = None
    """Whether this host is disabled; without it the trait stays as it is."""
    clock: Callable[[], float] = time.monotonic
    narrator: Narrator = field(default_factory=Narrator)
    listeners: list[Listener] = field(default_factory=list)
    _ready: bool = False
    _last: dict[str, Report] = field(default_factory=dict)
    _enabled: "HostEnabled" = field(init=False)

    def __post_init__(self) -> None:
        self._enabled = HostEnabled(self.nodes.drivers)
        if self.status is not None:
            self.status.subscribe(self._hear)

    def open(self) -> None:
        """Let the drivers open what they need.

        Of several only the first, which names the nodes, has to; another one that can't
        has failed, like one that can't be asked, and is tried again in each period.

        :raises DriverError: the first can't; DriverNotReady if it may later.
        """
        for number, loaded in enumerate(self.nodes.drivers):
            if loaded.can(Lifecycle):
                try:
                    _open(loaded, self.host)
                except DriverError as err:
                    if number == 0:
                        raise
                    loaded.opening.failed = err

    def close(self) -> None:
        """Let the drivers close what they opened; what fails is logged."""
        for loaded in self.nodes.drivers:
            if loaded.can(Lifecycle):
                _close(loaded, self.host)

    def hanging(self, since: float, seconds: float) -> str | None:
        """A driver that has not returned for that long after ``since`` (monotonic), in words."""
        for loaded in self.nodes.drivers:
            for began, method in list(loaded.calls.now):
                if time.monotonic() - max(began, since) >= seconds:
                    return f"driver {loaded.name} does not return from {method}"
        return None

    def period(self) -> bool:
        """Run a period of every root; return whether everything was reported.

        :raises Exception: what must not go on until somebody has looked.
        """
        self.systemd.feed()
        self._open_others()
        disabled = self.status.disabled if self.status is not None else None
        reports = self.nodes.period(self.clock(), disabled=disabled, stop=self.stop)
        self._enabled.tell(disabled)
        if self.status is not None:
            self.status.period_done(reports, self.nodes.any_disabled())
        self._tell(reports)
        for report in reports:
            if report.fatal and report.error is not None:
                raise report.error
        return all(report.ok for report in reports)

    def _open_others(self) -> None:
        for loaded in self.nodes.drivers:
            if loaded.can(Lifecycle) and loaded.opening.failed is not None:
                _close(loaded, self.host)
                _open_again(loaded, self.host)

    def _hear(self, notice: Notice) -> None:
        """Notify drivers of a written trait, then listeners."""
        if isinstance(notice, Written):
            self._enabled.tell(self.status.disabled if self.status is not None else None)
            self.after_switch(notice.reports)

    def after_switch(self, reports: Sequence[Report]) -> None:
        """Say how it went; what the last period found wrong besides is still so."""
        if self._last:
            self._tell([_on_top(report, self._last.get(report.node)) for report in reports])

    def _tell(self, reports: Sequence[Report]) -> None:
        more = self.status.conditions() if self.status is not None else ()
        files = self.nodes.additions.degraded().items()
        more += tuple(Condition(text, part) for part, text in files)
        told = [replace(one, besides=more) for one in reports]
        self._last = {one.node: one for one in reports}
        self.narrator.tell(told)
        for listener in self.listeners:
            listener(told)
        self._tell_systemd(_status(told))

    def ready_anyway(self, why: str) -> None:
        """Tell systemd that the service is up, before a first period was done."""
        if not self._ready:
            self._tell_systemd(why)

    def reloading(self) -> Callable[[], None]:
        """Tell systemd of a reload; what to call at its end.

        A service that is not up yet says nothing: the end of a reload would make it count as up.
        """
        if not self._ready:
            return lambda: None
        self.systemd.reloading()
        return self.systemd.reloaded

    def _tell_systemd(self, status: str) -> None:
        if self._ready:
            self.systemd.status(status)
        else:
            self.systemd.ready(status)
            self._ready = True


def _on_top(switched: Report, period: Report | None) -> Report:
    """Return the report of a switch with the conditions of the period before it."""
    if period is None:
        return switched
    return replace(
        period,
        occasion=switched.occasion,
        seconds=switched.seconds,
        done=switched.done,
        calls=switched.calls,
        tries=switched.tries,
        error=switched.error,
        failed={**period.failed, **switched.failed},
        draining=period.draining - switched.failed.keys(),
    )


def _open(loaded: LoadedDriver, host: str) -> None:
    try:
        loaded.init_host(host)
    except DriverHangs as err:
        raise DriverHangs(f"driver {loaded.name} could not start: {err}") from err
    except DriverError:
        raise
    except (Exception, SystemExit) as err:
        LOG.debug("Driver %s", loaded.name, exc_info=True)
        raise DriverNotReady(f"driver {loaded.name} could not start: {error_text(err)}") from err


def _open_again(loaded: LoadedDriver, host: str) -> None:
    opening = loaded.opening
    try:
        _open(loaded, host)
    except DriverError as err:
        opening.failed = err
        return
    opening.failed, then, opening.then = None, opening.then, None
    if then is not None:
        then()


def _close(loaded: LoadedDriver, host: str) -> None:
    try:
        loaded.cleanup_host(host)
    except DriverHangs as err:
        LOG.warning(
            "Driver %s: cleanup_host did not return, not waiting for it: %s", loaded.name, err
        )
    except (Exception, SystemExit):
        LOG.exception("Driver %s: cleanup_host failed", loaded.name)


def _status(reports: Sequence[Report]) -> str:
    """One line for ``systemctl status``."""
    wrong = [text for report in reports for text in errors(report.conditions().values())]
    if wrong:
        return f"degraded: {wrong[0]}" + (f" (and {len(wrong) - 1} more)" if wrong[1:] else "")
    return f"{len(reports)} node{'s' if len(reports) != 1 else ''} reported to Placement"


@dataclass(slots=True)
class HostEnabled:
    """The last status that each driver was given; used by the loop's thread only."""

    drivers: Sequence[LoadedDriver]
    last: dict[str, bool] = field(default_factory=dict)

    def tell(self, disabled: bool | None) -> None:
        """Never raises: the trait is the agent's own, whatever a driver makes of it."""
        if disabled is None:
            return
        for loaded in self.drivers:
            if not loaded.can(Switched) or self.last.get(loaded.name) is (not disabled):
                continue
            if loaded.opening.failed is not None:
                continue  # it hears once it is open
            try:
                loaded.set_host_enabled(enabled=not disabled)
            except (Exception, SystemExit) as err:  # noqa: BLE001  the agent lives on
                LOG.warning(
                    "Driver %s: set_host_enabled(%s) failed, retrying next period: %s",
                    loaded.name,
                    not disabled,
                    error_text(err),
                )
            else:
                self.last[loaded.name] = not disabled
