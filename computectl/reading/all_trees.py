"""All trees that Placement has: which there are, and reading them with a bound on the calls."""

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from computectl.reading.trees import Fleet, Trees
from computectl.shared.errors import NOT_WELL, CommandError
from reportclient.http import API
from reportclient.natural_order import natural_key
from reportclient.observed_tree import ObservedTree, read_tree
from reportclient.read_ahead import AT_ONCE
from reportclient.reader import Listed, members_of, part_of, providers_with_trait

TREES, CALLS = 20, 5000
"""What is read where nobody says: a screen or two; a minute of a Placement's time at most."""
MANY_HOSTS = 500
"""Up to so many hosts, all providers are listed in one call, 0.8 kB each."""
FIXED, FOR_EACH = 3, 3
"""Calls for a tree, and for each of its providers, that reading it takes about."""

Progress = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Selection:
    """Trees whose roots' names match ``pattern``, or all; ``limit`` of them at most."""

    pattern: str | None = None
    limit: int = TREES
    most_calls: int = CALLS


def read_trees(selection: Selection, api: API, progress: Progress | None = None) -> Trees:
    """The first trees by name, each with what shares with it.

    2 GETs find all; then come 1 for each tree that is wanted, and the calls of ``read_tree``
    for those that ``most_calls`` leaves room for.

    :raises CommandError: no root has such a name.
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
    """Return the roots by name, and whether they are hosts only, since there are too many."""
    hosts = providers_with_trait("COMPUTE_NODE", api)
    many = len(hosts) > MANY_HOSTS
    roots = filter(is_root, hosts if many else all_providers(api))
    return sorted(roots, key=lambda one: natural_key(one["name"])), many


def all_providers(api: API) -> list[Listed]:
    """In one GET, 0.8 kB each."""
    found: list[Listed] = part_of("/resource_providers", "resource_providers", api)
    return found


def is_root(one: Listed) -> bool:
    """Whether nothing is above it."""
    return bool(one["uuid"] == one["root_provider_uuid"])


def _fits(root: Listed, pattern: str) -> bool:
    return pattern == root["uuid"] or fnmatchcase(root["name"], pattern)


def _none(pattern: str | None) -> CommandError:
    if pattern is None:
        return CommandError("Placement has no providers", "compute-agent reports some", NOT_WELL)
    return CommandError(
        f"no root provider has a name like {pattern}",
        "`computectl tree --all` shows what names there are",
    )


def _affordable(wanted: list[Listed], selection: Selection, once: "CachedReads") -> list[Listed]:
    """The first of them, as long as the calls are enough; at least one."""
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


def _silent(words: str) -> None:
    """Nobody watches."""


def _read(chosen: list[Listed], once: "CachedReads", progress: Progress) -> list[ObservedTree]:
    found = []
    for number, root in enumerate(chosen, 1):
        progress(f"tree {number} of {len(chosen)}, {once.calls} calls so far")
        seen = read_tree(root["uuid"], once)
        found += [seen] if seen is not None else []
    progress("")
    return found


class CachedReads:
    """GETs only; an answer is kept, errors too.  ``calls`` counts what was really sent."""

    def __init__(self, api: API) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._answers: dict[str, Future[dict[str, Any]]] = {}

    @property
    def calls(self) -> int:
        """So far."""
        return len(self._answers)

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        if method != "GET":
            raise PermissionError(f"{method} {path}: only what is read can be kept")
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
        except BaseException as err:  # noqa: BLE001  whoever waits for it has to know
            answer.set_exception(err)
