"""The hosts that a list shows, from the URL's query."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

from compute_registry.observed_service import GROUPS, ObservedService
from reportclient.plain_text import natural_key, plain

LISTED = 1000
"""Hosts in the list, at most; more would be slow in a browser."""
EVERYBODY = "all"


@dataclass(frozen=True, slots=True)
class Host:
    """A row of the list."""

    service: ObservedService

    @property
    def name(self) -> str:
        """The host's name up to the first dot; an address is whole."""
        host = self.service.record.host
        name, _, _ = host.partition(".")
        return host if name.isdecimal() else name

    @property
    def domain(self) -> str:
        """The rest of the host's name after :attr:`name`, with its dot; empty if there is none."""
        return self.service.record.host.removeprefix(self.name)

    @property
    def text(self) -> str:
        """The text that a search looks in: what the row shows, and the agent's address."""
        return plain(self.service.text, keep="\n").casefold()


TITLES = {"differing": "different in Placement", "contested": "used by two agents"}
"""Groups of hosts that the page names in other words."""


@dataclass(frozen=True, slots=True)
class Selection:
    """The query of a list; ``text`` is searched in :attr:`Host.text`, ignoring case."""

    text: str = ""
    group: str = EVERYBODY

    @classmethod
    def from_query(cls, query: Mapping[str, str]) -> "Selection":
        """Return the selection of a URL's query; invalid values are ignored."""
        group = query.get("show", "")
        return cls(query.get("q", "").strip(), group if group in GROUPS else EVERYBODY)

    def link(self, **changes: Any) -> str:
        """Return the query of this list with ``changes``."""
        other = replace(self, **changes)
        parameters = {"q": other.text, "show": other.group if other.group != EVERYBODY else ""}
        return "?" + urlencode({name: text for name, text in parameters.items() if text})


class Fleet(NamedTuple):
    """A list: the first of the ``found`` hosts that match; ``counts`` are of all, by group.

    ``domain``, with a dot before it, ends the names of more than half of all hosts.
    """

    hosts: Sequence[Host]
    found: int
    counts: Mapping[str, int]
    domain: str


def select_hosts(selection: Selection, hosts: Sequence[Host]) -> Fleet:
    """Return the hosts of a list, those that need attention first."""
    services = [host.service for host in hosts]
    counts = {name: sum(map(belongs, services)) for name, belongs in GROUPS.items()}
    text = selection.text.casefold()
    belongs = GROUPS.get(selection.group)
    group = (host for host in hosts if belongs is None or belongs(host.service))
    matching = [host for host in group if not text or text in host.text]
    matching.sort(key=lambda each: (each.service.attention, natural_key(each.service.record.host)))
    labels = (host.domain.split(".")[1:] for host in hosts)
    ends = Counter(
        "".join(f".{label}" for label in each[at:]) for each in labels for at in range(len(each))
    )
    domain = max((end for end, n in ends.items() if n * 2 > len(hosts)), key=len, default="")
    return Fleet(matching[:LISTED], len(matching), {EVERYBODY: len(hosts), **counts}, domain)
