"""The screen of all hosts."""

from collections.abc import Iterable

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agent.cli.reading.services import ObservedService
from agent.cli.shared.screen import ago, counted
from agent.cli.watching.controls import Controls
from agent.cli.watching.feed import Feed
from agent.cli.watching.hosts import Hosts, chosen
from agent.cli.watching.live import Size, foot, head, lately, lately_room
from reportclient.plain_text import plain

COLUMNS = {
    "host": 0,
    "status": 0,
    "state": 0,
    "seen": 60,
    "rpc": 100,
    "roots": 100,
    "trait": 70,
    "reason": 80,
}
"""What is shown of a host, where the screen has so many columns at least."""
KEYS = "q leave  / filter  s sort  r reverse  PgUp PgDn"
AROUND = 4
"""Lines of a screen that are no host's and no change: head, titles, line below them, foot."""
STYLES = {"up": "green", "disabled": "yellow", "forced down": "yellow"}


def fleet_extent(feed: Feed[Hosts], controls: Controls, size: Size) -> tuple[int, int]:
    """How many hosts there are to scroll through, and how many are seen at once."""
    return len(_chosen(feed, controls)), _room(size)


def draw_fleet(feed: Feed[Hosts], controls: Controls, size: Size) -> RenderableType:
    """As many hosts as fit, from ``controls.top`` on."""
    width, height = size
    services, room = _chosen(feed, controls), _room(size)
    top = min(controls.top, max(0, len(services) - room))
    shown = services[top : top + room]
    place = f"{top + 1}-{top + len(shown)} of {len(services)}" if shown else "no host"
    return Group(
        _head(feed, width),
        _table(shown, width, room),
        lately(feed.changes, height),
        foot(_keys(controls), place, width),
    )


def _room(size: Size) -> int:
    return max(1, size[1] - AROUND - lately_room(size[1]))


def _chosen(feed: Feed[Hosts], controls: Controls) -> list[ObservedService]:
    order, backwards = controls.order, controls.backwards
    return chosen(feed.latest.services, controls.words, order, backwards=backwards)


def _head(feed: Feed[Hosts], width: int) -> Text:
    hosts = feed.latest
    said = [(counted(len(hosts.services), "host"), "bold")]
    for what, many in hosts.summary.items():
        if many or what in ("up", "down"):
            said.append((f"{many} {what}", STYLES.get(what, "red") if many else "dim"))
    wrong = feed.wrong or (hosts.why_not and f"Placement can't be asked: {hosts.why_not}")
    return head(said, feed.at, wrong, width)


def _table(services: Iterable[ObservedService], width: int, room: int) -> Table:
    shape = box.SIMPLE_HEAD
    table = Table(box=shape, expand=True, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    shown = [title for title, least in COLUMNS.items() if width >= least]
    for title in shown:
        table.add_column(title, no_wrap=True, justify="right" if title == "seen" else "left")
    table.columns[0].min_width, table.columns[0].max_width = min(20, width // 4), width // 3
    table.columns[-1].ratio = 1
    for one in services:
        cells = _cells(one)
        table.add_row(*(Text(plain(cells[title][0]), cells[title][1]) for title in shown))
    for _ in range(room - table.row_count):
        table.add_row()
    return table


def _cells(one: ObservedService) -> dict[str, tuple[str, str]]:
    record = one.record
    reason = (record.disabled_reason or "", "yellow")
    if record.contested_by:
        reason = (f"another agent has this name: {record.contested_by}", "red")
    return {
        "host": (record.host, "bold"),
        "status": (record.status, "yellow" if record.disabled else ""),
        "state": (one.state, "green" if one.up else "yellow" if record.forced_down else "red"),
        "seen": (ago(record.silent_for), "" if one.up else "red"),
        "rpc": (record.rpc_version or "?", "dim"),
        "roots": (str(len(record.roots)), "dim"),
        "trait": (one.agreement, "red" if one.agrees is False else "dim"),
        "reason": reason,
    }


def _keys(controls: Controls) -> str:
    if controls.typing:
        return f"filter: {controls.words}_   Enter keeps it, Esc clears it"
    words = f"filter: {controls.words} (Esc clears)  " if controls.words else ""
    return f"{words}by {controls.order}{', reversed' if controls.backwards else ''}   {KEYS}"
