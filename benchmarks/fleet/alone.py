"""The writes of a cold rack once more, by a client that does nothing else: what they alone need.

Into an empty Placement of its own, of the same kind and on the same database server, while the
fleet goes on beside it, as it did when the agents wrote.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import requests

from benchmarks.fleet.centre import Centre, Writes
from benchmarks.fleet.large_host import FIRST_RELEASE
from tests.servers.fleet import TRAITS
from tests.servers.placement_workers import PlacementWorkers

AT_ONCE = 16
HEADERS = {
    "X-Auth-Token": "admin",
    "X-Roles": "admin,service",
    "OpenStack-API-Version": "placement 1.39",
}


class Refused(Exception):
    """Placement did not take what it had taken from an agent."""


@contextmanager
def another_placement(centre: Centre) -> Iterator[str]:
    """Its URL; it has the custom names that the hosts found in theirs."""
    url = centre.placement_db.create("alone")
    with PlacementWorkers(centre.place("alone"), url, centre.shape.workers) as other:
        for name in (*TRAITS, FIRST_RELEASE):
            if name.startswith("CUSTOM_"):
                other.request("PUT", f"/traits/{name}")
        yield other.url


def send(url: str, writes: Iterable[Writes]) -> None:
    """Hosts side by side, each host's writes one after the other.

    :raises Refused: by Placement.
    """
    with ThreadPoolExecutor(AT_ONCE) as pool:
        list(pool.map(lambda each: _send(url, each), writes))


def _send(url: str, writes: Writes) -> None:
    with requests.Session() as session:
        session.headers.update(HEADERS)
        for method, path, body in writes:
            answer = session.request(method, url + path, json=body, timeout=300)
            if answer.status_code >= 400:
                raise Refused(f"{method} {path}: {answer.status_code} {answer.text}")
