"""The live screen of all hosts of the registry: rows, their order, changes."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from agent.registry.observed_service import Agreement, ObservedService
from computectl.reading.services import Observed
from computectl.shared.screen import counted
from computectl.watching.controls import Controls
from computectl.watching.live import Change, View
from reportclient.plain_text import natural_key, plain


def _by_name(service: ObservedService) -> Any:
    return natural_key(service.record.host)


def _silence(service: ObservedService) -> float:
    silent = service.record.silent_for
    return float("-inf") if silent is None else -silent


ORDERS: Mapping[str, Callable[[ObservedService], Any]] = {
    "attention": lambda service: (service.attention, _by_name(service)),
    "host": _by_name,
    "last seen": lambda service: (_silence(service), _by_name(service)),
    "status": lambda service: (service.record.status, _by_name(service)),
    "state": lambda service: (service.state, _by_name(service)),
}
"""Orders of hosts; the first is the default."""


def chosen(
    services: Iterable[ObservedService], filter_text: str, order: str, *, backwards: bool = False
) -> list[ObservedService]:
    """Return the services that contain each of the words, sorted."""
    wanted = filter_text.lower().split()
    matches = [
        service for service in services if all(word in _searched(service) for word in wanted)
    ]
    return sorted(matches, key=ORDERS[order], reverse=backwards)


def _searched(service: ObservedService) -> str:
    record = service.record
    reason = record.disabled_reason or ""
    return (
        f"{record.host} {record.shown_status} {service.state} {service.placement} {reason}".lower()
    )


def changes(before: Observed, now: Observed, at: float) -> list[Change]:
    """Return the changes between two reads, host by host."""
    old = {service.record.host: service for service in before.services}
    differences: list[Change] = []
    for service in now.services:
        was = old.pop(service.record.host, None)
        texts = [("is new", "")] if was is None else _differences(was, service)
        differences += (Change(at, service.record.host, text, style) for text, style in texts)
    differences += (Change(at, host, "its record is deleted", "yellow") for host in old)
    return differences


COMPARED: Mapping[Agreement, tuple[str, str]] = {
    Agreement.AGREES: ("Placement agrees again", "green"),
    Agreement.DIFFERS: ("Placement differs from its record", "red"),
    Agreement.ABSENT: ("its root provider is not in Placement", "red"),
}
"""The changes to these, each with its style."""


def _differences(was: ObservedService, now: ObservedService) -> list[tuple[str, str]]:
    texts = []
    if now.record.version != was.record.version and now.record.status != was.record.status:
        reason = f": {now.record.disabled_reason}" if now.record.disabled_reason else ""
        texts.append((f"{now.record.status}{reason}", "yellow" if now.record.disabled else "green"))
    if now.state != was.state:
        texts.append((f"{was.state} -> {now.state}", "green" if now.up else "red"))
    if now.placement is not was.placement and {now.placement, was.placement} <= COMPARED.keys():
        texts.append(COMPARED[now.placement])
    if now.record.roots != was.record.roots:
        texts.append((f"{len(was.record.roots)} -> {len(now.record.roots)} roots", ""))
    if now.record.contested_by and not was.record.contested_by:
        texts.append((f"contested by {now.record.contested_by}", "red"))
    return texts


COLUMNS = {
    "host": 0,
    "status": 0,
    "state": 0,
    "seen": 60,
    "rpc": 100,
    "roots": 100,
    "placement": 70,
    "reason": 80,
}
"""Columns of the table, each with the least width of the screen at which it is shown."""
KEYS = "q quit  / filter  s sort  r reverse  PgUp PgDn"
TITLES = 2
"""Lines of the table's heading."""
STYLES = {"up": "green", "disabled": "yellow", "forced down": "yellow"}


def fleet_view(hosts: Observed, controls: Controls, width: int) -> View[ObservedService]:
    """Return the screen of all hosts."""
    order = list(ORDERS)[controls.order % len(ORDERS)]
    head = [(counted(len(hosts.services), "host"), "bold")]
    states = [service.state for service in hosts.services]
    agreements = [service.placement for service in hosts.services]
    summary = {
        "up": states.count("up"),
        "disabled": sum(service.record.disabled for service in hosts.services),
        "forced down": states.count("forced down"),
        "down": states.count("down"),
        "differ from Placement": agreements.count(Agreement.DIFFERS),
        "not in Placement": agreements.count(Agreement.ABSENT),
        "contested": sum(service.record.contested_by is not None for service in hosts.services),
    }
    for what, many in summary.items():
        if many or what in ("up", "down"):
            head.append((f"{many} {what}", STYLES.get(what, "red") if many else "dim"))
    return View(
        head,
        hosts.placement_error and f"Placement can't be reached: {hosts.placement_error}",
        chosen(hosts.services, controls.filter_text, order, backwards=controls.backwards),
        lambda shown, room: [_table(shown, width, room)],
        _keys(controls, order),
        titles=TITLES,
    )


def _table(services: Iterable[ObservedService], width: int, room: int) -> Table:
    shape = box.SIMPLE_HEAD
    table = Table(box=shape, expand=True, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    shown = [title for title, least in COLUMNS.items() if width >= least]
    for title in shown:
        table.add_column(title, no_wrap=True, justify="right" if title == "seen" else "left")
    table.columns[0].min_width, table.columns[0].max_width = min(20, width // 4), width // 3
    table.columns[-1].ratio = 1
    for service in services:
        cells = _cells(service)
        table.add_row(*(Text(plain(cells[title][0]), cells[title][1]) for title in shown))
    for _ in range(room - table.row_count):
        table.add_row()
    return table


def _cells(service: ObservedService) -> dict[str, tuple[str, str]]:
    record = service.record
    reason = (record.disabled_reason or "", "yellow")
    if record.unreadable:
        reason = ("record unreadable: computectl service delete, or overwrite its row", "red")
    elif record.contested_by:
        reason = (f"another agent has this name: {record.contested_by}", "red")
    return {
        "host": (record.host, "bold"),
        "status": (record.shown_status, "yellow" if record.disabled else ""),
        "state": (
            service.state,
            "green" if service.up else "yellow" if record.forced_down else "red",
        ),
        "seen": (record.silence, "" if service.up else "red"),
        "rpc": (record.rpc_version or "?", "dim"),
        "roots": (str(len(record.roots)), "dim"),
        "placement": (service.placement, "red" if service.placement.wrong else "dim"),
        "reason": reason,
    }


def _keys(controls: Controls, order: str) -> str:
    if controls.typing:
        return f"filter: {controls.filter_text}_   Enter applies it, Esc clears it"
    prefix = f"filter: {controls.filter_text} (Esc clears)  " if controls.filter_text else ""
    return f"{prefix}by {order}{', reversed' if controls.backwards else ''}   {KEYS}"
