"""The hosts that a list shows and their order, from the URL's query."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import Any
from urllib.parse import urlencode

from agent.registry.observed_service import Agreement, ObservedService
from reportclient.plain_text import natural_key, plain

PER_PAGE = 1000
"""Hosts on a page; more would be slow in a browser."""
EVERYBODY = "all"


@dataclass(frozen=True, slots=True)
class Host:
    """A row of the list."""

    service: ObservedService

    def notes(self) -> Iterator[tuple[str, bool]]:
        """Yield what there is to say of the host, and whether that is an error."""
        record, service = self.service.record, self.service
        for condition in service.conditions():
            yield condition.text, True
        if service.placement is Agreement.ABSENT:
            text = f"{service.absent} of {len(record.roots)} root providers are not in Placement"
            yield f"{text}. On the host: computectl status", True
        elif service.placement is Agreement.DIFFERS:
            roots = f"{service.with_trait} of {len(record.roots)} root providers"
            yield f"Placement differs: {roots} disabled. On the host: computectl audit", True
        if record.forced_down:
            yield f"computectl service force-down {record.host} --unset takes that back", False
        elif not service.up and not record.unreadable:
            yield "no heartbeat arrives. On the host: systemctl status compute-agent", True
        if record.degraded:
            yield f"degraded: {record.degraded_short}", True
        if record.disabled_reason:
            yield record.disabled_reason, False
        if record.is_auto:
            yield f"{self.since or 'Disabled by its agent'}, {AUTO_STEP}", False

    @property
    def since(self) -> str:
        """When the host was disabled; empty if that is unknown."""
        at = self.service.record.disabled_at
        return f"since {at:%Y-%m-%d %H:%M} UTC" if at else ""

    @property
    def words(self) -> str:
        """The text that a search looks in: what the row shows, and the agent's address."""
        record = self.service.record
        said = self.service.state, record.shown_status, self.since, self.service.placement
        notes = [text for text, _ in self.notes()]
        parts = record.host, *said, *notes, record.agent_version, record.address or ""
        return plain("\n".join(parts), keep="\n").casefold()


AUTO_STEP = "until its hypervisor is back. On the host: computectl status"
GROUPS: Mapping[str, Callable[[Host], bool]] = {
    EVERYBODY: lambda _: True,
    "up": lambda host: host.service.up,
    "down": lambda host: not host.service.up,
    "degraded": lambda host: bool(host.service.record.degraded),
    "enabled": lambda host: not host.service.record.disabled,
    "disabled": lambda host: host.service.record.disabled,
    "attached": lambda host: host.service.record.attached,
    "differing": lambda host: host.service.placement.wrong,
    "contested": lambda host: host.service.record.contested_by is not None,
    "unreadable": lambda host: host.service.record.unreadable,
}
"""Groups of hosts by name, with their predicates.  One without hosts is not offered."""

_ORDERS: Mapping[str, Callable[[Host], Any]] = {
    "attention": lambda host: host.service.attention,
    "host": lambda host: natural_key(host.service.record.host),
    "state": lambda host: (host.service.up, host.service.record.forced_down),
    "status": lambda host: (not host.service.record.disabled, _or_never(host.service.since)),
    "placement": lambda host: host.service.placement,
    "heartbeat": lambda host: _or_never(host.service.record.silent_for),
    "agent": lambda host: natural_key(host.service.record.agent_version),
}


@dataclass(frozen=True, slots=True)
class Selection:
    """The query of a list; ``text`` is searched in :attr:`Host.words`, ignoring case."""

    text: str = ""
    group: str = EVERYBODY
    order: str = "attention"
    descending: bool = False
    page: int = 1

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> "Selection":
        """Return the selection of a URL's query; invalid values are ignored."""
        group, order, page = (query.get(name, "") for name in ("show", "sort", "page"))
        return cls(
            query.get("q", "").strip(),
            group if group in GROUPS else EVERYBODY,
            order if order in _ORDERS else "attention",
            query.get("order") == "desc",
            int(page) if page.isascii() and page.isdigit() and 0 < int(page[:9]) < 10**6 else 1,
        )

    def link(self, **changes: Any) -> str:
        """Return the query of this list with ``changes``."""
        other = replace(self, **{"page": 1, **changes})
        parameters = {
            "q": other.text,
            "show": other.group if other.group != EVERYBODY else "",
            "sort": other.order if other.order != "attention" else "",
            "order": "desc" if other.descending else "",
            "page": str(other.page) if other.page > 1 else "",
        }
        return "?" + urlencode({name: text for name, text in parameters.items() if text})

    def by(self, order: str) -> str:
        """Return the query of the list in this order, reversed if it is in this order already."""
        return self.link(order=order, descending=order == self.order and not self.descending)

    def direction(self, order: str) -> str:
        """Return the value of ``aria-sort`` for a column."""
        if order != self.order:
            return "none"
        return "descending" if self.descending else "ascending"


@dataclass(frozen=True, slots=True)
class Fleet:
    """A list of hosts: ``hosts`` of the ``found`` that match; ``counts`` are of all.

    ``domain`` is what all host names of the fleet end with, such as ``.example.org``.
    """

    hosts: Sequence[Host]
    found: int
    counts: Mapping[str, int]
    page: int
    pages: int
    domain: str


def select_hosts(selection: Selection, hosts: Sequence[Host]) -> Fleet:
    """Return one page of the hosts; the last one if there are not so many pages."""
    counts = {name: sum(map(belongs, hosts)) for name, belongs in GROUPS.items()}
    text = selection.text.casefold()
    group = filter(GROUPS[selection.group], hosts)
    matching = [host for host in group if not text or text in host.words]
    matching.sort(key=_ORDERS["host"])
    matching.sort(key=_ORDERS[selection.order], reverse=selection.descending)
    pages = max(1, -(-len(matching) // PER_PAGE))
    page = min(selection.page, pages)
    shown = matching[(page - 1) * PER_PAGE : page * PER_PAGE]
    domain = common_domain(host.service.record.host for host in hosts)
    return Fleet(shown, len(matching), counts, page, pages, domain)


def common_domain(names: Iterable[str]) -> str:
    """Return the domain that all names have, with its dot, or nothing.

    >>> common_domain(["a1.rack1.example.org", "a2.rack2.example.org"])
    '.example.org'
    """
    domains = {name.partition(".")[2] for name in names}
    parts = [domain.split(".")[::-1] for domain in domains]
    common = takewhile(lambda each: len(set(each)) == 1, zip(*parts, strict=False))
    domain = ".".join(reversed([part for part, *_ in common]))
    return f".{domain}" if domain else ""


def _or_never(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds
