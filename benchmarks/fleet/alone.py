"""Repeats the writes of a cold rack with a minimal client, to measure how long they take alone.

It writes to a second, empty Placement with the same number of processes and on the same database
server, while the fleet keeps running.
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
    """Placement refused a write that it had accepted from an agent."""


@contextmanager
def another_placement(centre: Centre) -> Iterator[str]:
    """Run a second Placement, with the custom traits that the first one had; yields its URL."""
    url = centre.placement_db.create("alone")
    with PlacementWorkers(centre.place("alone"), url, centre.shape.workers) as other:
        for name in (*TRAITS, FIRST_RELEASE):
            if name.startswith("CUSTOM_"):
                other.request("PUT", f"/traits/{name}")
        yield other.url


def send(url: str, writes: Iterable[Writes]) -> None:
    """Send the writes of several hosts in parallel, those of one host in order.

    :raises Refused: Placement refused a write.
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
