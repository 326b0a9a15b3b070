"""The embedded Placement starts, remembers, logs, and leaves nothing behind."""

import http.client
import os
import signal
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from driverkit.placement.server import PlacementServerError
from reportclient.errors import NotFound
from tests.servers.placement import RealPlacement
from tests.waiting import eventually

UUID = "00000000-0000-4000-8000-000000000001"
PROVIDER = f"/resource_providers/{UUID}"
NEW_PROVIDER = {"uuid": UUID, "name": "host"}


def test_data_and_port_survive_a_restart_and_a_kill(own_placement: RealPlacement) -> None:
    own_placement.start()
    url, pid = own_placement.url, own_placement.pid
    own_placement.start()
    assert own_placement.pid == pid, "starting twice is no error"
    own_placement.request("POST", "/resource_providers", json=NEW_PROVIDER)
    os.kill(own_placement.pid, signal.SIGKILL)
    eventually(lambda: own_placement.pid is None)
    own_placement.start()
    assert own_placement.request("GET", PROVIDER)["name"] == "host"
    assert own_placement.url == url
    pid = own_placement.pid
    own_placement.stop()
    own_placement.stop()
    assert not exists(pid)


def test_the_log_has_each_request_exactly_once_and_in_order(placement: RealPlacement) -> None:
    mark = placement.mark()
    placement.request("POST", "/resource_providers", json=NEW_PROVIDER, microversion="1.36")
    placement.request("GET", f"/resource_providers?in_tree={UUID}", microversion="1.14")
    with pytest.raises(NotFound):
        placement.request("DELETE", "/resource_providers/nobody")
    first, second, third = placement.since(mark)
    assert [str(request) for request in (first, second, third)] == [
        "POST /resource_providers 200",
        f"GET /resource_providers?in_tree={UUID} 200",
        "DELETE /resource_providers/nobody 404",
    ]
    assert (first.microversion, second.microversion) == ("1.36", "1.14")
    assert first.bytes_in > 0 and second.bytes_in == 0 and second.bytes_out > len(UUID)
    assert len({first.request_id, second.request_id, third.request_id}) == 3
    assert [r.is_write for r in (first, second, third)] == [True, False, True]
    assert placement.requests()[-1] == third


def test_emptying_forgets_all_that_clients_wrote(placement: RealPlacement) -> None:
    stranger = placement.stranger
    stranger.create_provider("host", UUID)
    child = stranger.create_child(UUID, "child")
    stranger.add_trait(child, "CUSTOM_X")
    stranger.set_aggregates(child, {UUID})
    stranger.set_inventory(child, {"CUSTOM_Y": {"total": 1}})
    consumer = stranger.put_allocation({child: {"CUSTOM_Y": 1}})
    placement.empty()
    assert placement.providers() == []
    assert stranger.allocation(consumer) == {"allocations": {}}
    for name in ("/traits/CUSTOM_X", "/resource_classes/CUSTOM_Y"):
        with pytest.raises(NotFound):
            placement.request("GET", name)


def test_a_failed_start_shows_the_end_of_the_log_and_leaves_nothing(tmp_path: Path) -> None:
    server = RealPlacement(tmp_path / "p", max_microversion="9.9")
    with pytest.raises(PlacementServerError, match=r"placement.log[\s\S]*'9.9' is not in list"):
        server.start()
    assert server.pid is None


def test_a_taken_port_is_a_clear_error(placement: RealPlacement, tmp_path: Path) -> None:
    with pytest.raises(PlacementServerError, match="Address already in use"):
        RealPlacement(tmp_path / "p", port=placement.port).start()


def test_the_start_is_bounded(tmp_path: Path) -> None:
    server = RealPlacement(tmp_path / "p")
    with pytest.raises(PlacementServerError, match="did not come up"):
        server.start(timeout=0.01)
    assert server.pid is None


def test_the_server_ends_when_its_parent_is_killed(tmp_path: Path) -> None:
    script = (
        "import sys, pathlib; from driverkit.placement.server import PlacementServer\n"
        "server = PlacementServer(pathlib.Path(sys.argv[1])); server.start()\n"
        "print(server.pid, server.port, flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "p")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        pid, port = map(int, parent.stdout.readline().split())
        assert answers(port)
        parent.kill()
        eventually(lambda: not answers(port))
    eventually(lambda: not exists(pid))


def answers(port: int) -> bool:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=5)) as link:
        try:
            link.request("GET", "/")
            return link.getresponse().status == 200
        except OSError:
            return False


def exists(pid: int) -> bool:
    """Whether it runs; one that nobody has waited for yet does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
