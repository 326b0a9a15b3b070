"""Fetch the parts of listed providers in parallel, before they are requested."""

from collections.abc import Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Any

from reportclient.errors import PlacementError
from reportclient.http import API

AT_ONCE = 8
"""Maximum number of concurrent requests."""
_TREE = "/resource_providers?in_tree="


@dataclass(slots=True)
class ReadAhead:
    """An API that, once it has listed providers, fetches their parts on ``pool``.

    ``generations``: of providers in the saved view, which are not fetched if unchanged.  Traits
    and usage (``used``) of a larger tree come from one call; see ``summary_of``.
    """

    api: API
    pool: Executor
    generations: Mapping[str, int] = field(default_factory=dict)
    used: dict[str, Mapping[str, int]] = field(default_factory=dict)
    _coming: dict[str, Future[dict[str, Any]]] = field(default_factory=dict)

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        coming = self._coming.pop(path, None) if method == "GET" else None
        if coming is not None:
            return coming.result()
        reply = self.api.request(method, path, json=json, needs=needs)
        listed = reply.get("resource_providers", ())
        fresh = [
            item for item in listed if self.generations.get(item["uuid"]) != item["generation"]
        ]
        for item in fresh:
            self._fetch(item["uuid"], "inventories")
            self._fetch(item["uuid"], "aggregates")
        whole = path.startswith(_TREE) and len(listed) >= SUMMARY_FROM
        summary = summary_of(path.removeprefix(_TREE), self.api) if whole else {}
        self._take_traits(fresh, summary)
        return reply

    def _take_traits(self, fresh: list[Mapping[str, Any]], summary: "Summary") -> None:
        """Provide or fetch traits, with the generation of the listing, which was read earlier."""
        for item in fresh:
            if item["uuid"] not in summary:
                self._fetch(item["uuid"], "traits")
                continue
            done: Future[dict[str, Any]] = Future()
            traits = sorted(summary[item["uuid"]].traits)
            done.set_result({"traits": traits, "resource_provider_generation": item["generation"]})
            self._coming[_part(item["uuid"], "traits")] = done
        self.used |= {uuid: summed.used for uuid, summed in summary.items()}

    def _fetch(self, uuid: str, part: str) -> None:
        path = _part(uuid, part)
        self._coming[path] = self.pool.submit(self.api.request, "GET", path)


def _part(uuid: str, part: str) -> str:
    return f"/resource_providers/{uuid}/{part}"


SUMMARY_FROM = 3
"""Number of providers of a tree from which a summary takes fewer calls than reading each."""
TRIED = ("VCPU", "PCPU")
"""Standard classes of which one unit is requested; the next is tried without candidates."""
NEEDS = "1.31"
"""Microversion of ``in_tree``; summaries of all providers of a tree need an older one."""


@dataclass(frozen=True, slots=True)
class Summed:
    """A provider's summary; ``used``: amounts by resource class."""

    traits: frozenset[str]
    used: Mapping[str, int]


Summary = Mapping[str, Summed]


def summary_of(root: str, api: API) -> Summary:
    """Return the summaries of the tree of ``root`` by UUID; empty if Placement has none."""
    for resource_class in TRIED:
        path = f"/allocation_candidates?resources={resource_class}:1&in_tree={root}&limit=1"
        try:
            summaries = api.request("GET", path, needs=NEEDS)["provider_summaries"]
            if summaries:
                return {uuid: _summed(fields) for uuid, fields in summaries.items()}
        except (PlacementError, KeyError, TypeError):
            return {}  # an older Placement, or not permitted: the parts are read one by one
    return {}


def _summed(fields: Mapping[str, Any]) -> Summed:
    used = {name: int(amounts["used"]) for name, amounts in fields["resources"].items()}
    return Summed(frozenset(fields["traits"]), used)
