"""The hosts that a list shows and their order, from the URL's query."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

from agent.registry.observed_service import ObservedService
from reportclient.plain_text import natural_key

PER_PAGE = 1000
"""Hosts on a page; more would be slow in a browser."""
EVERYBODY = "all"

GROUPS: Mapping[str, Callable[[ObservedService], bool]] = {
    EVERYBODY: lambda _: True,
    "up": lambda service: service.up,
    "down": lambda service: not service.up,
    "degraded": lambda service: bool(service.record.degraded),
    "enabled": lambda service: not service.record.disabled,
    "disabled": lambda service: service.record.disabled,
    "attached": lambda service: service.record.attached,
    "differing": lambda service: service.agrees is False,
    "contested": lambda service: service.record.contested_by is not None,
    "unreadable": lambda service: service.record.unreadable,
}
"""Groups of hosts by name, with their predicates.  One without hosts is not offered."""

_ORDERS: Mapping[str, Callable[[ObservedService], Any]] = {
    "attention": lambda service: service.attention,
    "host": lambda service: natural_key(service.record.host),
    "state": lambda service: (service.up, service.record.forced_down),
    "status": lambda service: (not service.record.disabled, _or_never(service.since)),
    "heartbeat": lambda service: _or_never(service.record.silent_for),
}


@dataclass(frozen=True, slots=True)
class Selection:
    """The query of a list; ``text`` is searched in host, reason and address, ignoring case."""

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
    """A list of hosts: ``hosts`` of the ``found`` that match; ``counts`` are of all."""

    hosts: Sequence[ObservedService]
    found: int
    counts: Mapping[str, int]
    pages: int


def select_hosts(selection: Selection, hosts: Sequence[ObservedService]) -> Fleet:
    """Return one page of the hosts."""
    counts = {name: sum(map(belongs, hosts)) for name, belongs in GROUPS.items()}
    text = selection.text.casefold()
    matching = []
    for host in filter(GROUPS[selection.group], hosts):
        record = host.record
        searched = record.host, record.disabled_reason or "", record.address or ""
        if text in "\n".join(searched).casefold():
            matching.append(host)
    matching.sort(key=_ORDERS["host"])
    matching.sort(key=_ORDERS[selection.order], reverse=selection.descending)
    first = (selection.page - 1) * PER_PAGE
    pages = -(-len(matching) // PER_PAGE)
    return Fleet(matching[first : first + PER_PAGE], len(matching), counts, pages)


def _or_never(seconds: float | None) -> float:
    return float("inf") if seconds is None else seconds
