"""List all trees of Placement, and read them with a bound on the number of calls."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from computectl.reading.trees import Fleet, Trees
from computectl.shared.errors import PROBLEMS, CommandError
from reportclient.http import API
from reportclient.observed_tree import AT_ONCE, ObservedTree, read_tree
from reportclient.plain_text import natural_key
from reportclient.reader import Listed, members_of, part_of, providers_with_trait

TREES, CALLS = 20, 5000
"""Default limits of trees (a screen or two) and of calls (about a minute)."""
MANY_HOSTS = 500
"""Up to this number of hosts, all providers are listed in one call, 0.8 kB each."""
FIXED, FOR_EACH = 3, 3
"""Estimated calls for a tree, and for each of its providers."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Selection:
    """Which trees to read: at most ``limit``, with root names that match ``pattern``, if any."""

    pattern: str | None = None
    limit: int = TREES
    most_calls: int = CALLS


def read_trees(selection: Selection, api: API, progress: Progress | None = None) -> Trees:
    """Read the first selected trees by name, each with its sharing providers.

    Takes 2 GETs to list the roots, 1 for each selected tree, and the calls of ``read_tree`` for
    as many of them as ``most_calls`` allows.

    :raises CommandError: no root matches.
    """
    once = CachedReads(api)
    roots, hosts_only = _roots(once)
    matching = [
        root for root in roots if selection.pattern is None or _fits(root, selection.pattern)
    ]
    if not matching:
        raise _none(selection.pattern)
    wanted = matching[: selection.limit]
    chosen = _affordable(wanted, selection, once)
    seen = _read(chosen, once, progress or _silent)
    fleet = Fleet(
        len(matching),
        once.calls,
        dear=len(wanted) - len(chosen),
        gone=len(chosen) - len(seen),
        hosts_only=hosts_only,
        limit=selection.limit,
    )
    return Trees(tuple(seen), fleet)


def _roots(api: API) -> tuple[list[Listed], bool]:
    """Return the roots by name, and whether only hosts were listed, since there are many."""
    hosts = providers_with_trait("COMPUTE_NODE", api)
    many = len(hosts) > MANY_HOSTS
    roots = filter(is_root, hosts if many else all_providers(api))
    return sorted(roots, key=lambda root: natural_key(root["name"])), many


def all_providers(api: API) -> list[Listed]:
    """Return all providers; one GET, 0.8 kB each."""
    listed: list[Listed] = part_of("/resource_providers", "resource_providers", api)
    return listed


def is_root(provider: Listed) -> bool:
    """Whether a provider is a root."""
    return bool(provider["uuid"] == provider["root_provider_uuid"])


def _fits(root: Listed, pattern: str) -> bool:
    return pattern == root["uuid"] or fnmatchcase(root["name"], pattern)


def _none(pattern: str | None) -> CommandError:
    if pattern is None:
        return CommandError("Placement has no providers", "start compute-agent", PROBLEMS)
    return CommandError(
        f"no root provider has a name that matches {pattern}",
        "`computectl tree --all` shows the names of roots",
    )


def _affordable(wanted: list[Listed], selection: Selection, once: "CachedReads") -> list[Listed]:
    """Return the first trees that the limit of calls suffices for, at least one."""
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="get") as pool:
        sizes = list(pool.map(lambda root: _size(root, once), wanted))
    spent = once.calls
    chosen: list[Listed] = []
    for root, size in zip(wanted, sizes, strict=True):
        spent += FIXED + FOR_EACH * size
        if chosen and spent > selection.most_calls:
            break
        chosen.append(root)
    return chosen


def _size(root: Listed, once: "CachedReads") -> int:
    return len(members_of(root["uuid"], once))


def _silent(text: str) -> None:
    """Show no progress."""


def _read(chosen: list[Listed], once: "CachedReads", progress: Progress) -> list[ObservedTree]:
    trees = []
    for number, root in enumerate(chosen, 1):
        progress(f"tree {number} of {len(chosen)}, {once.calls} calls so far")
        seen = read_tree(root["uuid"], once)
        trees += [seen] if seen is not None else []
    progress("")
    return trees


class CachedReads:
    """An API for GETs that caches answers and errors; ``calls`` counts the requests sent."""

    def __init__(self, api: API) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._answers: dict[str, Future[dict[str, Any]]] = {}

    @property
    def calls(self) -> int:
        """Return the number of requests sent."""
        return len(self._answers)

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        if method != "GET":
            raise PermissionError(f"{method} {path}: only GETs can be cached")
        with self._lock:
            answer, mine = self._answers.get(path), False
            if answer is None:
                answer, mine = self._answers.setdefault(path, Future()), True
        if mine:
            self._fill(answer, path, json, needs)
        return answer.result()

    def _fill(
        self, answer: Future[dict[str, Any]], path: str, json: Any, needs: str | None
    ) -> None:
        try:
            answer.set_result(self._api.request("GET", path, json=json, needs=needs))
        except BaseException as err:  # noqa: BLE001  passed on to the waiting threads
            answer.set_exception(err)
