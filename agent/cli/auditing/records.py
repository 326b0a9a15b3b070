"""What service records say, held against Placement.  Pure."""

from collections.abc import Collection, Iterable, Iterator

from agent.cli.reading.services import ObservedService
from agent.cli.shared.screen import ago, counted
from agent.period.traits import DISABLED
from agent.registry.record import ServiceRecord
from agent.told.conditions import Condition, Severity

GIVE_UP = "for a host that is given up: computectl retire there, then computectl service delete"


def reporting(seen: ObservedService, missing: Collection[str], alive: bool) -> Iterator[Condition]:
    """Whether the host reports; of its roots, ``missing`` are not in Placement."""
    record = seen.record
    host = record.host
    yield from seen.contested()
    if not alive:
        yield _silent(record)
    elif record.forced_down:
        step = f"computectl service force-down {host} --unset"
        yield Condition("is forced down, though it sends heartbeats", host, next_step=step)
    elif not record.roots:
        step = "computectl status there says why"
        text = "sends heartbeats, and has reported no root yet"
        yield Condition(text, host, Severity.WARNING, step)
    for root in missing:
        step = f"computectl status there says why; {GIVE_UP} {host}"
        yield Condition(f"its root {root} is not in Placement", host, next_step=step)


def _silent(record: ServiceRecord) -> Condition:
    never = record.last_seen is None
    text = "has never sent a heartbeat" if never else f"no heartbeat for {ago(record.silent_for)}"
    known = record.forced_down or record.disabled
    forced = ", forced down" if record.forced_down else ""
    status = f"{record.status}{forced}"
    severity = Severity.WARNING if known else Severity.ERROR
    step = f"start compute-agent there; {GIVE_UP} {record.host}"
    return Condition(f"{text} ({status})", record.host, severity, step)


def status(seen: ObservedService, *, alive: bool) -> Iterator[Condition]:
    """Whether Placement has the trait where the record says so."""
    record = seen.record
    if seen.agrees is not False:
        return
    has = f"{DISABLED} is on {seen.with_trait} of {counted(len(record.roots), 'root')}"
    if alive:
        step = "its agent mends that when it verifies its roots; else see computectl status there"
    else:
        step = "the scheduler goes by Placement until its agent runs again: start it"
    yield Condition(f"the record says {record.status}, and {has}", record.host, next_step=step)


def claimed_twice(records: Iterable[ServiceRecord]) -> Iterator[Condition]:
    """Roots that two hosts report."""
    first: dict[str, str] = {}
    for record in records:
        for root in record.roots:
            other = first.setdefault(root, record.host)
            if other != record.host:
                text = f"is the root of {other} and of {record.host}"
                step = "give one of the hosts a compute_id of its own"
                yield Condition(text, root, next_step=step)
