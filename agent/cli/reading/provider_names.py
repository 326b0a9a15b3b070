"""What providers are called: Placement's candidates have UUIDs only."""

from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor

from agent.cli.reading.read_ahead import AT_ONCE
from reportclient.candidates import AllocationCandidates, AllocationRequest
from reportclient.http import API
from reportclient.plain_text import plain
from reportclient.reader import part_of

ONE_BY_ONE = 25
"""Trees that are listed each by itself; for more of them all that there is is listed at once."""


def names_in(trees: Iterable[str], api: API) -> dict[str, str]:
    """Names by UUID of all providers of the trees of these roots; a call for each, or one."""
    paths = [f"/resource_providers?in_tree={root}" for root in dict.fromkeys(trees)]
    if len(paths) > ONE_BY_ONE:
        paths = ["/resource_providers"]
    with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="get") as pool:
        read = pool.map(lambda path: part_of(path, "resource_providers", api), paths)
        listed = [item for tree in read for item in tree]
    return {item["uuid"]: item["name"] for item in listed}


def trees_of(answer: AllocationCandidates, hosts: Iterable[str]) -> list[str]:
    """Roots of all that the candidates of these hosts use, sharing providers included."""
    wanted = set(hosts)
    summaries = answer.provider_summaries
    found = [
        summaries[uuid].root_uuid
        for request in answer.allocation_requests
        if answer.host(request) in wanted
        for uuid in (*request.allocations, *_meeting(request))
        if uuid in summaries
    ]
    return list(dict.fromkeys(found))


def _meeting(request: AllocationRequest) -> Iterator[str]:
    return (uuid for uuids in (request.mappings or {}).values() for uuid in uuids)


def name_of(uuid: str, names: Mapping[str, str]) -> str:
    """The name, or the UUID of one that went meanwhile; as it can be printed."""
    return plain(names.get(uuid, uuid))
