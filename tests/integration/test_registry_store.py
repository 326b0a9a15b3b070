"""The store of a fleet on both engines, and the endpoint before it: they can't be told apart."""

import contextlib
import functools
import itertools
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from agent.bus.caller import Caller
from agent.config import ConfigError
from agent.errors import (
    Changed,
    HostTaken,
    InputRefused,
    RegistryError,
    RegistryUnavailable,
    UnknownHost,
)
from agent.registry import wire
from agent.registry.checks import HeartbeatMessage, StatusChange
from agent.registry.client import RegistryClient
from agent.registry.record import DOWN_AFTER
from compute_registry.database.fleet_database import FleetDatabase
from compute_registry.database.tables import CLOCK_ROW, LONGEST_TICK, SERVICES
from compute_registry.endpoint import RegistryEndpoint
from compute_registry.store import AT_ONCE, RECORDS_LOG, VERSION_EPOCH, SqlRegistry
from tests.registries import answering, registry_at
from tests.servers import records
from tests.servers.databases import MariaDB

ENGINES = ("sqlite", pytest.param("mariadb", marks=pytest.mark.needs("mariadb")))
ROOTS = ("6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca", "9cbb8ef1-1a5c-4ba1-9d4b-9b0a05d3c8a1")


@pytest.fixture(scope="module")
def server() -> Iterator[Callable[[], MariaDB]]:
    """Give the server, which the first call starts."""
    with ExitStack() as started:
        yield functools.cache(lambda: started.enter_context(MariaDB()))


@pytest.fixture
def new_url(server: Callable[[], MariaDB], tmp_path: Path) -> Callable[[str], str]:
    """The URL of a new, empty database of that engine."""

    def url(engine: str) -> str:
        if engine == "sqlite":
            return f"sqlite:///{tmp_path}/{uuid.uuid4().hex}.sqlite"
        return server().create(f"r{uuid.uuid4().hex[:12]}")

    return url


@pytest.fixture(params=ENGINES)
def url(request: pytest.FixtureRequest, new_url: Callable[[str], str]) -> str:
    return new_url(request.param)


@pytest.fixture(scope="module")
def empty(
    server: Callable[[], MariaDB], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], FleetDatabase]]:
    """Give a database of that kind without records; its schema is made once."""
    made: dict[str, FleetDatabase] = {}

    def database(name: str) -> FleetDatabase:
        if name not in made:
            file = tmp_path_factory.mktemp("store") / "registry.sqlite"
            url = f"sqlite:///{file}" if name == "sqlite" else server().create("store")
            made[name] = FleetDatabase.from_url(url)
            made[name].prepare()
        made[name].run(lambda sql: sql.execute(SERVICES.delete()))
        return made[name]

    yield database
    for each in made.values():
        each.dispose()


@pytest.fixture
def endpoint(empty: Callable[[str], FleetDatabase]) -> RegistryEndpoint:
    """What a call over RPC comes to, whatever its arguments are."""
    return RegistryEndpoint(registry_at(empty("sqlite")))


@pytest.fixture
def over_rpc(endpoint: RegistryEndpoint) -> Iterator[RegistryClient]:
    with answering(endpoint) as bus:
        yield RegistryClient(bus)


@pytest.fixture(params=ENGINES)
def registry(request: pytest.FixtureRequest, empty: Callable[[str], FleetDatabase]) -> SqlRegistry:
    return registry_at(empty(request.param))


@pytest.fixture
def later(registry: SqlRegistry) -> Callable[[float], None]:
    """Let that many seconds pass for all records."""
    return functools.partial(records.later, registry.database)


# -- heartbeats


def test_the_first_heartbeat_makes_the_record(registry: SqlRegistry) -> None:
    assert registry.list_services() == []
    before = datetime.now(UTC)
    record = registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ROOTS))
    assert (record.host, record.address, record.rpc_version) == ("host1", "a1", "6.1")
    assert record.roots == ROOTS
    assert (record.disabled, record.forced_down, record.disabled_reason) == (False, False, None)
    assert record.is_up()
    second = timedelta(seconds=1)  # what a database may round off
    assert before - second <= record.last_seen <= datetime.now(UTC) + second
    assert registry.get_service("host1").uuid == record.uuid == str(uuid.UUID(record.uuid))


def test_a_heartbeat_brings_what_is_new_and_keeps_the_version(registry, later) -> None:
    registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ROOTS))
    later(5)
    first = registry.get_service("host1")
    second = registry.heartbeat(HeartbeatMessage("host1", "a1", "6.2", ROOTS[:1]))
    assert (second.rpc_version, second.roots) == ("6.2", ROOTS[:1])
    assert second.last_seen > first.last_seen
    assert (second.version, second.uuid) == (first.version, first.uuid)
    later(50)
    assert registry.get_service("host1").is_up()
    later(11)
    silent = registry.get_service("host1")
    assert not silent.is_up()
    assert 61 <= silent.silent_for < 75
    assert registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ())).is_up()


def test_a_second_agent_with_the_same_host_is_refused_and_both_are_named(
    registry: SqlRegistry,
) -> None:
    registry.keep_alive({})
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.1", ROOTS))
    with pytest.raises(HostTaken) as refused:
        registry.heartbeat(HeartbeatMessage("host1", "rack 2", "6.1", ()))
    assert "rack 1" in str(refused.value) and "rack 2" in str(refused.value)
    assert registry.get_service("host1").address == "rack 1"
    assert registry.get_service("host1").contested_by is None, "rack 1 may have been rebooted"
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.1", ROOTS))
    contested = registry.get_service("host1")
    assert (contested.roots, contested.contested_by) == (ROOTS, "rack 2")
    registry.heartbeat(HeartbeatMessage("host2", "rack 2", "6.1", ()))


@pytest.mark.parametrize("ticks", [3, 13])
def test_a_host_that_is_rebooted_is_at_no_time_two_agents(
    registry: SqlRegistry, later: Callable[[float], None], ticks: int
) -> None:
    """Its second boot is refused until the first counts as down; then it is served."""
    registry.keep_alive({})
    registry.heartbeat(HeartbeatMessage("host1", "boot 1", "6.5", ()))
    for _ in range(ticks):
        with contextlib.suppress(HostTaken, Changed):
            registry.heartbeat(
                HeartbeatMessage("host1", "boot 2", "6.5", (), replaces=last_heard(registry))
            )
        assert registry.get_service("host1").contested_by is None
        later(LONGEST_TICK)
    assert registry.get_service("host1").address == ("boot 1" if ticks == 3 else "boot 2")


def last_heard(registry: SqlRegistry) -> str:
    seen_at = registry.get_service("host1").last_seen
    assert seen_at is not None
    return seen_at.isoformat()


def test_a_heartbeat_of_an_earlier_life_takes_over_nothing(registry, later) -> None:
    """Whoever has recorded one can send it again, at any time."""
    registry.heartbeat(HeartbeatMessage("host1", "boot 1", "6.1", (), replaces=""))
    registry.set_status(StatusChange("host1", disabled=True, reason="moving"))
    later(61)
    with pytest.raises(Changed, match="read the record"):
        registry.heartbeat(HeartbeatMessage("host1", "boot 2", "6.1", (), replaces=""))
    recorded = {"replaces": last_heard(registry)}
    moved = registry.heartbeat(HeartbeatMessage("host1", "boot 2", "6.1", (), **recorded))
    assert (moved.address, moved.disabled_reason) == ("boot 2", "moving")
    with pytest.raises(HostTaken):
        registry.heartbeat(HeartbeatMessage("host1", "boot 1", "6.1", ()))
    registry.heartbeat(HeartbeatMessage("host1", "boot 2", "6.1", ()))
    later(61)
    for address, sent in (("boot 1", {"replaces": ""}), ("boot 3", recorded)):
        with pytest.raises(Changed):
            registry.heartbeat(HeartbeatMessage("host1", address, "6.1", (), **sent))
    assert registry.get_service("host1").address == "boot 2"


def test_a_delete_is_of_the_record_that_was_read_and_of_none_after_it(registry, later) -> None:
    first = registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.1", ()))
    later(61)
    registry.delete("host1", uuid=first.uuid.upper())
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.1", ()))
    later(61)
    with pytest.raises(Changed, match="created again"):
        registry.delete("host1", uuid=first.uuid)
    assert registry.get_service("host1").uuid != first.uuid


def test_heartbeats_that_report_nothing_new_are_recorded_together(registry, later) -> None:
    hosts = [f"host{number:03}" for number in range(AT_ONCE + 1)]
    for host in (*hosts[:3], hosts[-1], "attached"):
        registry.heartbeat(
            HeartbeatMessage(host, f"{host}'s", "6.5", (), attached=host == "attached")
        )
    changed = registry.set_status(StatusChange("host001", disabled=True))
    later(61)
    beats = {host: HeartbeatMessage(host, f"{host}'s", known_version=1) for host in hosts}
    beats["attached"] = HeartbeatMessage("attached", "attached's", known_version=0)
    beats["host002"] = HeartbeatMessage("host002", "another's", known_version=1)
    [unaware] = registry.keep_alive(beats)
    assert unaware == ("host001", changed.version, True)
    up = [record.host for record in registry.list_services() if record.is_up()]
    assert up == ["attached", "host000", "host001", hosts[-1]]


@pytest.mark.needs("mariadb")
@pytest.mark.parametrize("clock_jumps", [3600, -3600])
def test_no_host_gets_more_silent_while_no_registry_records_heartbeats(
    empty: Callable[[str], FleetDatabase], clock_jumps: int
) -> None:
    database = empty("mariadb")
    registry = registry_at(database)
    registry.keep_alive({})
    registry.heartbeat(HeartbeatMessage("host1", "a1", "6.5", ()))

    def passes(seconds: float) -> None:
        ticked = CLOCK_ROW.update().values(ticked_at=CLOCK_ROW.c.ticked_at - seconds)
        database.run(lambda sql: sql.execute(ticked))

    passes(clock_jumps)
    assert registry.get_service("host1").is_up()
    registry.keep_alive({})
    assert registry.get_service("host1").is_up()
    for _ in range(int(DOWN_AFTER / LONGEST_TICK) + 1):
        passes(LONGEST_TICK)
        registry.keep_alive({})
    assert not registry.get_service("host1").is_up()


@pytest.mark.needs("mariadb")
def test_a_contest_ends_after_a_minute_though_the_clock_was_set_back(empty) -> None:
    database = empty("mariadb")
    registry = registry_at(database)
    registry.keep_alive({})
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.5", ()))
    with pytest.raises(HostTaken):
        registry.heartbeat(HeartbeatMessage("host1", "rack 2", "6.5", ()))
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.5", ()))
    assert registry.get_service("host1").contested_by == "rack 2"
    for _ in range(int(DOWN_AFTER / LONGEST_TICK) + 1):  # its clock is where it was before
        ticked = CLOCK_ROW.update().values(ticked_at=CLOCK_ROW.c.ticked_at - LONGEST_TICK)
        database.run(lambda sql: sql.execute(ticked))
        registry.keep_alive({})
    assert registry.get_service("host1").contested_by is None


# -- status


def test_the_record_has_what_the_agent_reports_about_itself(registry: SqlRegistry) -> None:
    about = {"agent_version": "1.2.0", "degraded": "placement: no answer\n" + "x" * 1900}
    record = registry.heartbeat(HeartbeatMessage("host1", "a1", "6.5", (), **about))
    assert (record.agent_version, record.degraded, record.attached) == (*about.values(), False)
    attached = registry.heartbeat(HeartbeatMessage("host1", "a1", "6.5", (), attached=True))
    assert (attached.degraded, attached.attached) == ("", True)
    assert registry.get_service("host1").attached
    assert not registry.heartbeat(HeartbeatMessage("host1", "a1", "6.5", ())).attached
    with pytest.raises(InputRefused, match="degraded"):
        registry.heartbeat(HeartbeatMessage("host1", "a1", "6.5", (), degraded="x" * 2001))


def test_answers_to_heartbeats_have_the_number_of_hosts_that_are_up(registry: SqlRegistry) -> None:
    for host in ("host1", "host2", "host3"):
        registry.heartbeat(HeartbeatMessage(host, host, "6.5", ()))
    registry.set_forced_down("host3", forced_down=True)
    counted = registry_at(registry.database)
    assert counted.heartbeat(HeartbeatMessage("host1", "host1", "6.5", ())).hosts == 2
    assert counted.get_service("host1").hosts is None
    assert counted.heartbeat(HeartbeatMessage("host4", "host4", "6.5", ())).hosts == 2, (
        "counted once a minute"
    )


def test_what_a_later_agent_says_besides_is_ignored(endpoint: RegistryEndpoint) -> None:
    reported = {"host": "host1", "address": "rack 1", "rpc_version": "6.1", "roots": []}
    answer = endpoint.heartbeat({}, **reported, of_a_later_version=1)
    assert answer["value"]["host"] == "host1"


@pytest.mark.parametrize(
    ("change", "named"),
    [({"disabled": True, "unless": "idle"}, "unless"), ({"reason": "new disks"}, "disabled")],
)
def test_a_change_with_an_unknown_condition_or_without_a_status_is_refused(
    over_rpc: RegistryClient, change: dict[str, object], named: str
) -> None:
    over_rpc.heartbeat(HeartbeatMessage("host1", "rack 1", "6.1", ROOTS))
    with pytest.raises(RegistryError, match=named):
        over_rpc.call("set_status", host="host1", **change)
    assert over_rpc.get_service("host1").version == 1


A_ROOT = "c0ffee00-0000-4000-8000-00000000000a"
ANOTHER = "c0ffee00-0000-4000-8000-00000000000b"


def test_a_root_of_a_host_that_is_up_is_not_claimed_by_another(registry, caplog) -> None:
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.1", [A_ROOT]))
    for _ in range(2):
        claimed = registry.heartbeat(HeartbeatMessage("host2", "rack 2", "6.1", [A_ROOT, ANOTHER]))
        assert claimed.roots == (ANOTHER,)
    assert registry.get_service("host1").roots == (A_ROOT,)
    refused = {each.name for each in caplog.records if "not added to the record" in each.msg}
    assert refused == {RECORDS_LOG.name}, "repeated lines are left out there"
    assert f"Root provider {A_ROOT}: not added to the record of host2" in caplog.text
    for host, roots in (("host3", [A_ROOT, ANOTHER]), ("host1", [ANOTHER])):
        holders = registry.holders(HeartbeatMessage(host, "rack 3", roots=roots))
        assert [each.host for each in holders] == ["host1", "host2"]
    # host1 does not report it any more.
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.1", []))
    assert registry.heartbeat(
        HeartbeatMessage("host2", "rack 2", "6.1", [A_ROOT, ANOTHER])
    ).roots == (
        A_ROOT,
        ANOTHER,
    )


def test_a_root_has_one_host_whoever_spells_it_how(registry: SqlRegistry) -> None:
    own = registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.1", [A_ROOT]))
    for spell in (str.upper, lambda root: root.replace("-", "")):
        roots = [spell(A_ROOT), spell(ANOTHER), ANOTHER]
        assert registry.heartbeat(HeartbeatMessage("host2", "rack 2", "6.1", roots)).roots == (
            ANOTHER,
        )
        assert registry.find_service(spell(own.uuid)).roots == (A_ROOT,)


def test_thousands_of_roots_are_compared_set_by_set(registry: SqlRegistry) -> None:
    count = 20_000 if registry.database.engine.name == "sqlite" else 2_500
    before = sorted(str(uuid.uuid4()) for _ in range(count))
    registry.heartbeat(HeartbeatMessage("ironic", "a1", "6.1", before))
    sent: list[str] = []
    sa.event.listen(
        registry.database.engine, "before_cursor_execute", lambda *args: sent.append(args[2])
    )
    after = sorted([*before[::2], *(str(uuid.uuid4()) for _ in range(count // 2))])
    assert registry.heartbeat(HeartbeatMessage("ironic", "a1", "6.1", after)).roots == tuple(after)
    assert len(sent) < 100
    assert registry.get_service("ironic").roots == tuple(after)
    with pytest.raises(InputRefused, match="20000"):
        registry.heartbeat(HeartbeatMessage("ironic", "a1", "6.1", [ANOTHER] * 20_001))


def test_a_root_of_a_host_that_is_down_moves_to_who_reports_it(registry, later, caplog) -> None:
    caplog.set_level("INFO")
    registry.heartbeat(HeartbeatMessage("host1", "rack 1", "6.1", [A_ROOT, ANOTHER]))
    later(61)
    assert registry.heartbeat(HeartbeatMessage("host2", "rack 2", "6.1", [A_ROOT])).roots == (
        A_ROOT,
    )
    assert f"{A_ROOT}: moved to the record of host2 from host1, which is down" in caplog.text
    assert registry.get_service("host1").roots == (ANOTHER,)


def test_what_is_decided_after_a_restore_is_later_than_what_was_before_it(registry) -> None:
    registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ()))
    seen = [registry.set_status(StatusChange("host1", disabled=False)).version]
    records.write(registry.database, "host1", version=2, disabled=False)
    time.sleep(max(0.0, seen[-1] + VERSION_EPOCH + 1.6 - time.time()))  # a restore takes longer
    for decide in (
        lambda: registry.set_status(StatusChange("host1", disabled=True)),
        lambda: registry.set_forced_down("host1", forced_down=True),
    ):
        version = decide().version
        assert version > seen[-1]
        seen.append(version)


def test_an_order_holds_whatever_the_host_says_and_a_replay_never(registry: SqlRegistry) -> None:
    def says(version: int) -> int:
        own = StatusChange(
            "host1", disabled=True, expected_version=version, new_version=version + 1
        )
        return registry.set_status(own, by_host=True).version

    def order(version: int) -> int:
        down = registry.set_forced_down("host1", forced_down=True, expected_version=version)
        return down.version

    def enable(version: int) -> int:
        change = StatusChange("host1", disabled=False, expected_version=version)
        return registry.set_status(change).version

    read = registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ROOTS)).version
    said = says(says(read))
    assert said == read + 2
    for late in (lambda: says(read), lambda: order(said + 1)):
        with pytest.raises(Changed, match=f"host1 was changed .* version {said}"):
            late()
    ordered = order(read)
    assert ordered > said
    for replay in (lambda: order(read), lambda: order(said), lambda: enable(read)):
        with pytest.raises(Changed):
            replay()
    says(ordered)
    assert enable(ordered) > ordered
    with pytest.raises(Changed):
        registry.set_status(
            StatusChange("host1", disabled=True, expected_version=ordered), by_host=True
        )


def test_since_when_it_is_disabled_stays_when_the_reason_changes(registry: SqlRegistry) -> None:
    assert registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ())).disabled_at is None
    since = registry.set_status(StatusChange("host1", disabled=True)).disabled_at
    assert since is not None and since.tzinfo is not None
    again = registry.set_status(StatusChange("host1", disabled=True, reason="new disks"))
    forced = registry.set_forced_down("host1", forced_down=True)
    assert (again.disabled_at, forced.disabled_at) == (since, since)
    assert registry.get_service("host1").disabled_at == since
    assert registry.set_status(StatusChange("host1", disabled=False)).disabled_at is None


def test_a_reason_with_any_character_comes_back_as_it_was(registry: SqlRegistry) -> None:
    registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ()))
    for reason in ("Lüfter 🔥 kaputt; '\"\\ DROP TABLE %s :x", "ü" * 255):
        changed = registry.set_status(StatusChange("host1", disabled=True, reason=reason))
        assert changed.disabled_reason == reason


def test_two_writers_at_once_lose_nothing(registry: SqlRegistry) -> None:
    before = registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ())).version
    rounds = 15

    def status() -> None:
        for number in range(rounds):
            registry.set_status(StatusChange("host1", disabled=True, reason=f"round {number}"))

    def force() -> None:
        for number in range(rounds):
            registry.set_forced_down("host1", forced_down=number % 2 == 0)

    def beat() -> None:
        for _ in range(rounds):
            registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ROOTS))

    with ThreadPoolExecutor(3) as pool:
        for done in [pool.submit(work) for work in (status, force, beat)]:
            done.result()
    record = registry.get_service("host1")
    assert record.version >= before + 2 * rounds
    assert (record.disabled_reason, record.forced_down) == ("round 14", True)
    assert record.roots == ROOTS


def test_of_writers_that_decided_on_the_same_record_one_wins(registry: SqlRegistry) -> None:
    seen = registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ()))
    barrier = threading.Barrier(4)

    def decide(number: int) -> bool:
        barrier.wait(60)
        try:
            registry.set_status(
                StatusChange(
                    "host1", disabled=True, reason=str(number), expected_version=seen.version
                )
            )
        except Changed:
            return False
        return True

    with ThreadPoolExecutor(4) as pool:
        won = list(pool.map(decide, range(4)))
    assert sum(won) == 1
    assert registry.get_service("host1").disabled_reason == str(won.index(True))


def test_first_heartbeats_at_once_make_one_record(registry: SqlRegistry) -> None:
    barrier = threading.Barrier(4)

    def beat(_: int) -> str:
        barrier.wait(60)
        return registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ())).uuid

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(beat, range(4)))) == 1
    assert len(registry.list_services()) == 1


@pytest.mark.needs("mariadb")
def test_a_record_made_while_the_first_heartbeat_looks_is_nobodys_yet(
    new_url: Callable[[str], str],
) -> None:
    url = new_url("mariadb")
    other = registry_at(url)
    # With the default isolation, the first statement keeps others from creating the record.
    database = FleetDatabase(sa.create_engine(url, isolation_level="READ COMMITTED"))
    registry = registry_at(database)
    made: list[str] = []

    @sa.event.listens_for(database.engine, "after_cursor_execute")
    def make_the_record(*executed: object) -> None:
        if not made and str(executed[2]).startswith("UPDATE"):
            made.append("host1")
            other.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ()))

    assert registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ())).address == "a1"
    assert made == ["host1"]
    assert registry.get_service("host1").contested_by is None
    database.dispose()
    other.database.dispose()


# -- looking, and forgetting


def test_hosts_are_listed_by_name_and_found_by_uuid(registry: SqlRegistry) -> None:
    for name in ("host2", "host10", "Host1"):
        registry.heartbeat(HeartbeatMessage(name, name, None, ()))
    hosts = [record.host for record in registry.list_services()]
    assert sorted(hosts) == ["Host1", "host10", "host2"]
    found = registry.find_service(registry.get_service("host10").uuid)
    assert found.host == "host10"
    with pytest.raises(UnknownHost):
        registry.find_service(str(uuid.uuid4()))


def test_many_hosts_are_listed_in_pages_without_a_gap(registry: SqlRegistry, monkeypatch) -> None:
    monkeypatch.setattr(wire, "PAGE", 7)
    rows = [
        {"uuid": str(uuid.uuid4()), "host": f"Host-{n:03}" if n % 2 else f"host_{n:03}"}
        for n in range(28)
    ]
    records.insert(registry.database, rows)
    found = [record.host for record in registry.list_services()]
    assert sorted(found) == sorted(row["host"] for row in rows)


UNKNOWN = (
    "nobody",
    "HOST1",
    "",
    "x" * 400,
    "h'; --",
    "a\0",
    "\udcff",
    "host1 ",
    " host1",
    "host1\n",
)


def test_an_unknown_host_is_said(registry: SqlRegistry) -> None:
    registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ()))
    asks = (
        registry.get_service,
        registry.delete,
        lambda name: registry.set_status(StatusChange(name, disabled=True)),
        lambda name: registry.set_forced_down(name, forced_down=True),
    )
    for host, ask in itertools.product(UNKNOWN, asks):
        with pytest.raises(UnknownHost):
            ask(host)


WRONG = [
    ("heartbeat", {"host": "x" * 300}, "host"),
    ("heartbeat", {"host": ""}, "host"),
    ("heartbeat", {"host": "host 1"}, "host"),
    ("heartbeat", {"host": None}, "host"),
    ("heartbeat", {"host": 5}, "host"),
    ("heartbeat", {"host": "a\x1b[2Jb"}, "host"),
    ("heartbeat", {"address": "x" * 300}, "address"),
    ("heartbeat", {"address": "a1 "}, "address"),
    ("heartbeat", {"address": None}, "address"),
    ("heartbeat", {"rpc_version": "6.5" + "0" * 40}, "rpc_version"),
    ("heartbeat", {"rpc_version": 6.5}, "rpc_version"),
    ("heartbeat", {"roots": "r"}, "roots"),
    ("heartbeat", {"roots": ["r"]}, "roots"),
    ("heartbeat", {"roots": [None]}, "roots"),
    ("set_status", {"disabled": "no"}, "disabled"),
    ("set_status", {"expected_version": -1}, "expected_version"),
    ("set_status", {"expected_version": 2**40}, "expected_version"),
    ("set_status", {"expected_version": "1"}, "expected_version"),
    ("set_status", {"new_version": 0.5}, "new_version"),
    ("set_status", {"new_version": 3}, "new_version"),
    ("set_status", {"expected_version": 1, "new_version": 2**31 - 1}, "new_version"),
    ("set_forced_down", {"forced_down": "true"}, "forced_down"),
    ("set_forced_down", {"expected_version": "1"}, "expected_version"),
]
RIGHT = {
    "heartbeat": {"host": "host1", "address": "a1", "rpc_version": "6.1", "roots": []},
    "set_status": {
        "host": "host1",
        "disabled": True,
        "reason": None,
        "expected_version": None,
        "new_version": None,
    },
    "set_forced_down": {"host": "host1", "forced_down": True, "expected_version": None},
}


@pytest.mark.parametrize(("method", "wrong", "named"), WRONG)
def test_wrong_input_is_an_error_for_its_caller_only(
    endpoint: RegistryEndpoint,
    method: str,
    wrong: dict[str, object],
    named: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    endpoint.store.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ()))
    error = getattr(endpoint, method)({}, **RIGHT[method] | wrong)["error"]
    assert error["kind"] == "InputRefused" and named in error["text"]
    [record] = endpoint.store.list_services()
    assert (record.host, record.version, record.roots) == ("host1", 1, ())
    assert "lost" not in caplog.text and "Traceback" not in caplog.text


@pytest.mark.parametrize(
    "page",
    [{"after": "", "limit": -1}, {"after": "", "limit": 0}, {"after": 1, "limit": 5}]
    + [{"after": "x" * 300, "limit": 5}, {"after": "", "limit": True}],
)
def test_a_page_that_can_not_be_is_refused(endpoint, page: dict[str, object]) -> None:
    assert endpoint.list_services({}, **page)["error"]["kind"] == "InputRefused"


@pytest.mark.parametrize("sent", [{}, {"host": "host1", "mood": "fine"}])
def test_what_no_method_takes_is_an_error_for_its_caller(
    over_rpc: RegistryClient, sent: dict[str, object], caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(RegistryError, match="get_service"):
        over_rpc.call("get_service", **sent)
    assert "Traceback" not in caplog.text


# -- the tables


STARTS = """
import sys
from compute_registry.database.fleet_database import FleetDatabase
sys.stdin.readline()
FleetDatabase.from_url(sys.argv[1]).prepare()
"""


def test_instances_that_start_at_once_create_the_tables_once(url: str) -> None:
    starts = [
        subprocess.Popen(
            [sys.executable, "-c", STARTS, url],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(2)
    ]
    for start in starts:
        start.stdin.write("go\n")
        start.stdin.flush()
    errors = [start.communicate(timeout=120)[1] for start in starts]
    assert [start.returncode for start in starts] == [0, 0], errors
    database = FleetDatabase.from_url(url)
    assert database.run(lambda sql: sql.execute(sa.select(CLOCK_ROW.c.id)).scalars().all()) == [1]
    assert registry_at(database).list_services() == []
    database.dispose()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ("ALTER TABLE services DROP COLUMN ordered", "services: ordered"),
        ("ALTER TABLE services ADD COLUMN zone VARCHAR(9) NOT NULL", "services: zone"),
        ("ALTER TABLE services MODIFY degraded VARCHAR(255) NOT NULL", "services: degraded"),
        ("DROP TABLE clock", ""),
        ("ALTER TABLE clock ADD COLUMN later_version VARCHAR(9)", ""),
    ],
)
@pytest.mark.needs("mariadb")
def test_tables_that_this_version_can_not_use_are_refused_at_the_start(
    new_url: Callable[[str], str], change: str, named: str
) -> None:
    database = FleetDatabase.from_url(new_url("mariadb"))
    database.prepare()
    database.run(lambda sql: sql.execute(sa.text(change)))
    if named:
        with pytest.raises(ConfigError, match=f"{named}.*create an empty database"):
            database.prepare()
    else:
        database.prepare()
        assert registry_at(database).heartbeat(HeartbeatMessage("host1", "a1")).host == "host1"
    database.dispose()


# -- the database goes away


@pytest.mark.needs("mariadb")
def test_a_database_that_was_killed_is_used_again_when_it_is_back(
    server: Callable[[], MariaDB], empty: Callable[[str], FleetDatabase]
) -> None:
    registry = registry_at(empty("mariadb"))
    registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ()))
    server().kill9()
    with pytest.raises(RegistryUnavailable, match="127.0.0.1"):
        registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ()))
    server().start()
    assert registry.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ())).version == 1


@pytest.mark.parametrize("during", ["statement", "commit"])
@pytest.mark.needs("mariadb")
def test_a_database_that_hangs_in_a_transaction_ends_it_and_is_used_again(
    during: str, server: Callable[[], MariaDB]
) -> None:
    database = FleetDatabase.from_url(server().create(f"stops_in_{during}"))

    def work(sql: sa.Connection, stops: ExitStack) -> object:
        sql.execute(sa.text("CREATE TABLE IF NOT EXISTS t (n INTEGER)"))
        sql.execute(sa.text("INSERT INTO t VALUES (1)"))
        stops.enter_context(server().hung())
        return during == "statement" and sql.execute(sa.text("SELECT 1"))

    with ExitStack() as stops, pytest.raises(RegistryUnavailable, match="timed out"):
        database.run(lambda sql: work(sql, stops))
    assert database.run(lambda sql: sql.execute(sa.text("SELECT 1")).scalar_one()) == 1
    database.dispose()


def test_a_database_that_can_not_be_reached_is_said_without_the_password() -> None:
    database = FleetDatabase.from_url("mysql+pymysql://me:secret@127.0.0.1:1/x")
    with pytest.raises(RegistryUnavailable) as failed:
        database.prepare()
    assert "127.0.0.1" in str(failed.value)
    assert "secret" not in str(failed.value)


@pytest.mark.parametrize(
    "bad",
    ["", "nonsense", "oracle9://x", "sqlite:///no/such/directory/x", "sqlite://", "sqlite:///"],
)
def test_a_url_that_can_not_be_used_is_said(bad: str) -> None:
    with pytest.raises(RegistryUnavailable):
        FleetDatabase.from_url(bad).prepare()


# -- who did it


def test_the_log_says_by_whom_and_why_a_record_was_changed_over_rpc(over_rpc, caplog) -> None:
    caplog.set_level("INFO")
    eve = Caller("req-1", "eve", None, "rack\x1b[2J 1")
    client = RegistryClient(over_rpc.rpc.transport, caller=eve)
    client.heartbeat(HeartbeatMessage("host1", "a1", "6.1", ()))
    client.set_status(StatusChange("host1", disabled=True, reason="new disks"))
    client.set_forced_down("host1", forced_down=True)
    client.delete("host1")
    told = [each for each in caplog.messages if "by eve from rack\\x1b[2J 1 [req-1]" in each]
    assert [each.partition(",")[0] for each in told] == [
        "host1 is disabled now (new disks)",
        "host1 is forced down now",
        "The record of host1 was deleted",
    ]
