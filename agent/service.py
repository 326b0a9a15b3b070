"""The running service: opens and closes drivers, runs periods, passes reports to listeners."""

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from agent.nodes.nodes import Nodes
from agent.placement import Endpoint
from agent.reporting.condition import PLACEMENT, RETRY_STEP, Condition, Severity, summarized
from agent.reporting.condition_log import ConditionLog, lasting
from agent.reporting.reports import Report
from agent.reporting.systemd import Systemd
from agent.switching.host_status import HostStatus
from drivers.abilities import Lifecycle, Switched
from drivers.errors import DriverError, DriverFault, DriverNotReady
from drivers.loader import LoadedDriver
from reportclient.errors import without_frames
from reportclient.plain_text import error_text

LOG = logging.getLogger("compute_agent.service")

SILENCE = Condition("Placement does not answer", RETRY_STEP, kind=PLACEMENT)
Listener = Callable[[Sequence[Report]], None]


@dataclass(slots=True)
class Service:
    """Runs periods of all roots of this host, and reports them."""

    host: str
    nodes: Nodes
    systemd: Systemd
    stop: Callable[[], bool]
    status: HostStatus | None = None
    """The status of this host; with ``None`` the agent leaves COMPUTE_STATUS_DISABLED alone."""
    endpoint: Endpoint = field(default_factory=Endpoint)
    clock: Callable[[], float] = time.monotonic
    log: ConditionLog = field(default_factory=ConditionLog)
    listeners: list[Listener] = field(default_factory=list)
    _ready: bool = False
    _last: dict[str, Report] = field(default_factory=dict)
    _enabled: dict[str, bool] = field(default_factory=dict)
    """The last notification of each driver, by its name; only the loop's thread uses it."""
    _logged: dict[str, str] = field(default_factory=dict)
    """The last failure of each driver's methods that are called until they succeed."""

    def __post_init__(self) -> None:
        if self.status is not None:
            self.status.on_written = self.after_switch
        self.nodes.on_ended = self.systemd.feed

    def open(self) -> None:
        """Call ``init_host`` of the drivers.

        Only the first one, which names the nodes, has to succeed.  Another one that fails is
        reported as failed, and opened again in each period.

        :raises DriverError: the first driver failed; DriverNotReady if it may succeed later.
        """
        for number, loaded in enumerate(self.nodes.drivers):
            try:
                open_driver(loaded, self.host)
            except DriverError as err:
                LOG.debug("Driver %s", loaded.name, exc_info=True)
                if number == 0:
                    raise type(err)(f"driver {loaded.name} {err}") from err
                loaded.opening.failed = err

    def close(self) -> None:
        """Call ``cleanup_host`` of the drivers; failures are logged."""
        for loaded in self.nodes.drivers:
            close_driver(loaded, self.host, self._logged)

    def silence(self, seconds: float, since: float = 0.0) -> Condition | None:
        """Return ``SILENCE`` if Placement has not answered for ``seconds``; see :meth:`hanging`."""
        last = time.monotonic() - seconds
        waiting = list(self.nodes.breaker.waiting.values())
        return SILENCE if any(max(began, since) <= last for began in waiting) else None

    def hanging(self, since: float, seconds: float) -> str | None:
        """Return a text that names a call of a driver or to Placement that hangs, or ``None``.

        A call hangs that has lasted for ``seconds`` since it began and since ``since`` (monotonic).
        """
        if self.silence(seconds, since):
            return SILENCE.text
        last = time.monotonic() - seconds
        for loaded in self.nodes.drivers:
            for began, method in list(loaded.calls.now):
                if max(began, since) <= last:
                    return f"driver {loaded.name} does not return from {method}"
        return None

    def period(self) -> bool:
        """Run a period of every root; return whether everything was reported.

        An exception that nothing provides for is logged, and the next period runs as usual.

        :raises Exception: the error of a report that is ``fatal``: the agent has to stop.
        """
        try:
            self.systemd.feed()
            for loaded in self.nodes.drivers:
                if loaded.opening.failed is not None:
                    self._reopen(loaded)
            disabled = self.status.disabled if self.status is not None else None
            reports = self.nodes.period(self.clock(), disabled=disabled, stop=self.stop)
            self.notify_drivers(disabled)
            if self.status is not None:
                self.status.period_done(reports, self.nodes.any_disabled())
            self._publish(reports)
        except (Exception, SystemExit):
            LOG.exception("The period failed, the next one runs as usual; report this traceback")
            return False
        for report in reports:
            if report.fatal and report.error is not None:
                raise report.error
        return all(report.ok for report in reports)

    def _reopen(self, loaded: LoadedDriver) -> None:
        opening = loaded.opening
        if loaded.calls.now:  # init_host hangs, as the last error says
            return
        close_driver(loaded, self.host, self._logged)
        try:
            open_driver(loaded, self.host)
        except DriverError as err:
            opening.failed = err
            return
        opening.failed, then, opening.then = None, opening.then, None
        if then is not None:
            then()

    def notify_drivers(self, disabled: bool | None) -> None:
        """Call ``set_host_enabled`` of each driver that does not have this status yet.

        Errors of drivers are logged: the agent writes the trait whatever a driver does.
        """
        if disabled is None:
            return
        enabled = not disabled
        for loaded in self.nodes.drivers:
            is_notified = self._enabled.get(loaded.name) is enabled
            if is_notified or loaded.opening.failed is not None:  # notified once it is open
                continue
            failure = f"{loaded.name}: set_host_enabled({enabled}) failed, retrying next period"
            with _logging(failure, self._logged):
                loaded.call(Switched.set_host_enabled, enabled)
                self._enabled[loaded.name] = enabled

    def after_switch(self, reports: Sequence[Report]) -> None:
        """After a switch notify the drivers, then the listeners, with the last period's conditions.

        ``reports`` are those of writing the trait.
        """
        self.notify_drivers(self.status.disabled if self.status is not None else None)
        if last := self._last:
            self._publish(
                [last[new.node].with_switch(new) if new.node in last else new for new in reports]
            )

    def _publish(self, reports: Sequence[Report]) -> None:
        self.endpoint.look()
        more = self.status.conditions() if self.status is not None else ()
        more += (*self.endpoint.conditions, *self.nodes.provider_files.conditions())
        complete = [replace(each, conditions=(*each.conditions, *more)) for each in reports]
        self._last = {report.node: report for report in reports}
        self.log.log_reports(complete)
        for report in reports:
            for err in filter(None, (report.error, *report.driver_errors.values())):
                without_frames(err)  # listeners keep reports until the next one
        for listener in self.listeners:
            listener(complete)
        self._notify_systemd(_status(complete))

    def ready_anyway(self, why: str) -> None:
        """Tell systemd that the service is up although no period has finished yet."""
        if not self._ready:
            self._notify_systemd(why)

    def reloading(self) -> Callable[[], None]:
        """Tell systemd that a reload begins; return the function to call at its end.

        Before the service is up systemd is not told: the end of a reload would mark it as up.
        """
        if not self._ready:
            return lambda: None
        self.systemd.reloading()
        return self.systemd.reloaded

    def _notify_systemd(self, status: str) -> None:
        if self._ready:
            self.systemd.status(status)
        else:
            self.systemd.ready(status)
            self._ready = True


def open_driver(loaded: LoadedDriver, host: str) -> None:
    """Call ``init_host``.  :raises DriverError: it failed; DriverNotReady if that may pass."""
    try:
        loaded.call(Lifecycle.init_host, host)
    except DriverError as err:
        kind = DriverNotReady if isinstance(err, DriverNotReady | DriverFault) else DriverError
        raise kind(f"could not start: {error_text(err)}") from err


def close_driver(loaded: LoadedDriver, host: str, logged: dict[str, str]) -> None:
    """Call ``cleanup_host``; log an error that is not the one in ``logged``."""
    with _logging(f"{loaded.name}: cleanup_host failed", logged):
        loaded.call(Lifecycle.cleanup_host, host)


@contextmanager
def _logging(failure: str, logged: dict[str, str]) -> Iterator[None]:
    """Log a driver's error in the block, unless it is the last one of the same method."""
    method = failure.partition("(")[0]
    try:
        yield
        logged.pop(method, None)
    except DriverError as err:
        last, logged[method] = logged.get(method, ""), f"{failure}: {error_text(err)}"
        if lasting(last) != lasting(logged[method]):
            LOG.warning("Driver %s", logged[method])
            LOG.debug("Driver %s", failure, exc_info=True)


def _status(reports: Sequence[Report]) -> str:
    """Return the line for ``systemctl status``."""
    conditions = [each for report in reports for each in report.conditions]
    errors = [each for each in conditions if each.severity is Severity.ERROR]
    wrong = errors or [each for each in conditions if each.severity is Severity.DEGRADED]
    reported = f"{len(reports)} node{'s' if len(reports) != 1 else ''} reported to Placement"
    text = "degraded" if errors else reported
    return f"{text}: {summarized(map(str, wrong))}" if wrong else text
