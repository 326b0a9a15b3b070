"""Which trees are read of many, and with which calls; on a Placement made of numbers."""

import threading
from typing import Any

import pytest

from computectl.reading.trees import MANY_HOSTS, CachedReads, read_trees
from reportclient.errors import Unreachable

ALL = "/resource_providers"
HOSTS = "/resource_providers?required=COMPUTE_NODE"


def listed(number: int) -> dict[str, Any]:
    uuid = f"00000000-0000-4000-8000-{number:012}"
    place = {"root_provider_uuid": uuid, "parent_provider_uuid": None, "generation": 1}
    return {"uuid": uuid, "name": f"host{number}", **place}


class ManyHosts:
    """Lone roots without anything; ``paths`` are what was asked for."""

    def __init__(self, count: int) -> None:
        self.hosts = [listed(number) for number in range(count)]
        self.paths: list[str] = []

    def request(self, method: str, path: str, **_: Any) -> dict[str, Any]:
        assert method == "GET"
        self.paths.append(path)
        if path in (ALL, HOSTS):
            return {"resource_providers": self.hosts}
        if "in_tree=" in path:
            found = [one for one in self.hosts if path.endswith(one["uuid"])]
            return {"resource_providers": found}
        part = path.rpartition("/")[2]
        return {part: {} if part == "inventories" else [], "resource_provider_generation": 1}


def test_of_ten_thousand_hosts_only_those_are_read_that_are_shown() -> None:
    api = ManyHosts(10_000)
    trees = read_trees(api, "host12*", limit=5)
    names = [observed.snapshot.providers[observed.root].name for observed in trees.observed]
    assert names == ["host12", "host120", "host121", "host122", "host123"]
    assert trees.fleet is not None
    assert trees.fleet.calls == len(api.paths) == 1 + 5 * 4
    assert ALL not in api.paths
    assert [words.split()[0] for words in trees.fleet.omitted] == ["106", "only"]


def test_where_there_are_few_hosts_what_is_no_host_is_found_too() -> None:
    api = ManyHosts(MANY_HOSTS)
    trees = read_trees(api, limit=1)
    assert ALL in api.paths
    assert trees.fleet is not None
    assert not any("only trees of hosts" in words for words in trees.fleet.omitted)


def test_calls_are_bounded_before_they_are_made() -> None:
    api = ManyHosts(40)
    trees = read_trees(api, limit=40, most_calls=100)
    assert len(api.paths) <= 100
    assert trees.fleet is not None
    dear = 40 - len(trees.observed)
    assert dear > 0
    assert trees.fleet.omitted[0].startswith(f"{dear} trees would take too many calls")


def test_progress_is_told_and_ended() -> None:
    told: list[str] = []
    read_trees(ManyHosts(3), limit=2, progress=told.append)
    assert [words.partition(",")[0] for words in told] == ["tree 1 of 2", "tree 2 of 2", ""]


def test_nothing_is_asked_twice_not_even_at_the_same_time() -> None:
    api = ManyHosts(1)
    once = CachedReads(api)
    threads = [threading.Thread(target=once.request, args=("GET", ALL)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (once.calls, api.paths) == (1, [ALL])


def test_an_error_reaches_everyone_who_asked() -> None:
    class Down:
        def request(self, *_: Any, **__: Any) -> dict[str, Any]:
            raise Unreachable("no answer")

    once = CachedReads(Down())
    for _ in range(2):
        with pytest.raises(Unreachable):
            once.request("GET", ALL)
