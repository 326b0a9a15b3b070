"""A Placement with a MariaDB, for which names that differ only in case are the same."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from reportclient.errors import NameTaken
from reportclient.provider_tree import own_uuid
from tests.agents import ROOT, Agent
from tests.ownership.test_renamed_hosts import CLASS, Cards, card
from tests.servers.databases import MariaDB
from tests.servers.placement_workers import PlacementWorkers

pytestmark = pytest.mark.needs("mariadb")
ONE, TWO = (f"c0ffee00-0000-4000-8000-0000000000c{number}" for number in (1, 2))


@pytest.fixture(scope="module")
def on_mariadb(tmp_path_factory) -> Iterator[PlacementWorkers]:
    directory: Path = tmp_path_factory.mktemp("placement")
    with MariaDB() as database, PlacementWorkers(directory, database.create("placement")) as server:
        yield server


def test_hosts_and_devices_in_use_change_the_case_of_their_names(on_mariadb) -> None:
    stranger = on_mariadb.stranger
    driver = Cards(card("GPU0"), card("a", uuid=ONE), card("b", uuid=TWO))
    agent = Agent(on_mariadb, driver)
    agent.settled()
    gpu = own_uuid(ROOT, "GPU0")
    guests = {uuid: stranger.put_allocation({uuid: {CLASS: 3}}) for uuid in (gpu, ONE, TWO)}
    with pytest.raises(NameTaken):
        stranger.create_provider("HOST1")
    uuids = None, ONE, TWO
    for node, *listed in (
        ("HOST1", "GPU0", "a", "b"),
        ("HOST1", "gpu0", "B", "A"),
        ("Host1.ORG", "gPU0", "a", "b"),
    ):
        driver.nodes = [node]
        driver.listed = tuple(card(name, uuid=it) for name, it in zip(listed, uuids, strict=True))
        agent.settled()
        found = [stranger.provider(uuid)["name"] for uuid in (ROOT, gpu, ONE, TWO)]
        assert found == [node, *(f"{node}_{name}" for name in listed)]
        for uuid, guest in guests.items():
            assert set(stranger.allocation(guest)["allocations"]) == {uuid}
