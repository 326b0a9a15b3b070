"""The screen of one host."""

from collections.abc import Iterable, Iterator

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from agent.cli.shared.screen import Words, ago, counted, filled
from agent.cli.status import SeenStatus, check_words, service_words
from agent.cli.watching.controls import Controls
from agent.cli.watching.feed import Feed
from agent.cli.watching.live import Size, foot, head, lately, lately_room, padded
from agent.cli.watching.this_host import ThisHost
from agent.told.conditions import Severity
from agent.told.status_schema import NodeStatus
from reportclient.plain_text import plain

KEYS = "q leave  PgUp PgDn"
AROUND = 3
"""Lines of a screen besides: head, an empty one, foot."""
SEVERITIES = {Severity.ERROR: "red", Severity.WARNING: "yellow", Severity.INFO: "dim"}


def host_extent(feed: Feed[ThisHost], size: Size) -> tuple[int, int]:
    """How many lines there are to scroll through, and how many are seen at once."""
    return len(_nodes(feed.latest.status, size[0])), _room(size, len(list(_facts(feed.latest))))


def draw_host(feed: Feed[ThisHost], controls: Controls, size: Size) -> RenderableType:
    """What holds for the host as a whole, then each node, from ``controls.top`` on."""
    width, height = size
    seen, facts = feed.latest, list(_facts(feed.latest))
    status, lines, room = seen.status, _nodes(seen.status, width), _room(size, len(facts))
    top = min(controls.top, max(0, len(lines) - room))
    shown = lines[top : top + room]
    place = f"{top + 1}-{top + len(shown)} of {len(lines)}" if len(lines) > room else ""
    health = ("well", "green") if status.well else ("not well", "red")
    said = [(f"compute-agent on {status.written.host}", "bold"), health]
    return Group(
        head(said, feed.at, feed.wrong or status.out_of_date, width),
        _grid(facts),
        Text(""),
        *padded(shown, room),
        lately(feed.changes, height),
        foot(KEYS, place, width),
    )


def _room(size: Size, facts: int) -> int:
    return max(1, size[1] - AROUND - facts - lately_room(size[1]))


def _grid(facts: list[tuple[str, Text]]) -> Table:
    grid = Table.grid(padding=(0, 2), expand=True)
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column(ratio=1, no_wrap=True, overflow="ellipsis")
    for name, words in facts:
        grid.add_row(name, words)
    return grid


def _facts(seen: ThisHost) -> Iterator[tuple[str, Text]]:
    status = seen.status
    yield "service", _text(service_words(status.service))
    if status.written.checks:
        yield "checks", _text(check_words(status.written.checks))
    interval = status.written.interval
    every = f"every {ago(interval)}" if interval else "when asked"
    version = f"; version {status.written.agent_version}" if status.written.agent_version else ""
    pid = f"; pid {status.written.pid}"
    yield "period", Text(f"{every}, the last one {ago(status.age)} ago{pid}{plain(version)}")
    if seen.numbers is not None:
        yield "calls", _calls(seen)
    yield "drift", _drift(status)


def _text(words: Iterable[Words]) -> Text:
    return Text.assemble(*((piece, style or "") for piece, style in words))


def _calls(seen: ThisHost) -> Text:
    assert seen.numbers is not None
    calls, verified = seen.numbers.calls, seen.numbers.verified
    others = "".join(f", {many} {what}" for what, many in calls.most_common() if what != "ok")
    text = f"{calls.total()} since it started{others}"
    if verified is not None:
        text += f"; verified {ago(max(0.0, seen.status.now - verified))} ago"
    return Text(plain(text))


def _drift(status: SeenStatus) -> Text:
    """What Placement does not have as it should."""
    nodes = status.written.nodes
    said: list[tuple[str, str]] = []
    for severity, style in SEVERITIES.items():
        if many := sum(len(node.texts(severity)) for node in nodes):
            what = "note" if severity is Severity.INFO else severity.value
            said.append((counted(many, what), style))
    if pending := sum(len(node.reshape_pending) for node in nodes):
        said.append((f"{counted(pending, 'reshape')} pending", "yellow"))
    return Text(", ").join(Text(*one) for one in said or [("none", "green")])


def _nodes(status: SeenStatus, width: int) -> list[Text]:
    """Whole: what is wrong is not cut off."""
    return [line for node in status.written.nodes for line in _node(node, status.now, width)]


def _node(node: NodeStatus, now: float, width: int) -> Iterator[Text]:
    since = "never well" if node.last_ok is None else f"well {ago(now - node.last_ok)} ago"
    took = "" if node.seconds is None else f" in {node.seconds:.1f} s"
    yield Text.assemble(
        (plain(node.node), "bold"),
        "  ",
        ("well", "green") if node.ok else (since, "red"),
        f"  {plain(node.changes) or 'nothing to change'}; {counted(node.calls, 'call')}{took}",
    )
    for one in node.conditions:
        words = f"{one.severity.value:<8} {plain(str(one))}"
        for line in filled(words, width, "  ", " " * 11).splitlines():
            yield Text(line, SEVERITIES[one.severity])
    for step in dict.fromkeys(one.next_step for one in node.conditions if one.next_step):
        for line in filled(plain(step), width, " " * 11, " " * 11).splitlines():
            yield Text(line, "italic")
