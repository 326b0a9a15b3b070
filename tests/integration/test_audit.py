"""``computectl audit`` on a real Placement."""

import sqlite3
import time
from contextlib import closing

import pytest

from agent.registry import checks
from agent.registry.checks import StatusChange
from agent.reporting.reports import Report
from agent.reporting.status import StatusFile
from compute_registry.store import SqlRegistry
from computectl.auditing import fleet
from computectl.reading.services import Services
from computectl.shared.command_session import Session
from driverkit.scripted.driver import DEFAULT_SCRIPT
from reportclient.http import PlacementAPI, token_adapter
from tests import registries
from tests.integration.agent_host import DOWN_AFTER, Here, Said
from tests.servers import records
from tests.servers.backup import back_up, restore
from tests.servers.placement import RealPlacement

OWNER, NODE = "CUSTOM_OWNER_COMPUTE_AGENT", "COMPUTE_NODE"
DISABLED, SHARES = "COMPUTE_STATUS_DISABLED", "MISC_SHARES_VIA_AGGREGATE"
TWIN = "7a0e6a3c-0000-4000-8000-000000000002"
AGGREGATE = "7a0e6a3c-0000-4000-8000-000000000001"


@pytest.fixture
def reported(host: Here, registry: SqlRegistry, placement: RealPlacement) -> Here:
    """Two cells with cards and storage that it shares; and its record."""
    host.report(DEFAULT_SCRIPT.read_text())
    registry.heartbeat(
        checks.HeartbeatMessage("host1", "here", "6.5", [placement.uuids()["host1"]])
    )
    return host


def root(placement: RealPlacement, name: str, *traits: str) -> str:
    made = placement.stranger.create_provider(name)
    for trait in (OWNER, *traits):
        placement.request("PUT", f"/traits/{trait}") if trait.startswith("CUSTOM_") else None
        placement.stranger.add_trait(made, trait)
    return made


def silence(registry: SqlRegistry, name: str) -> None:
    """Its last heartbeat was long ago."""
    records.later(registry.database, 2 * DOWN_AFTER, name)


def damage(placement: RealPlacement, sql: str, *values: object) -> None:
    """What Placement's API refuses, and a restored database has."""
    with closing(sqlite3.connect(placement.directory / "placement.sqlite", timeout=60)) as database:
        with database:
            database.execute(sql, values)


def rows(said: Said) -> dict[tuple[str, str, str], dict[str, str]]:
    return {(row["check"], row["severity"], row["subject"]): row for row in said.json()}


# -- the cloud


def test_a_cloud_in_which_all_fits_together_is_well(host, registry, placement) -> None:
    for name in ("one", "two"):
        registry.heartbeat(
            checks.HeartbeatMessage(name, name, "6.5", [root(placement, name, NODE)])
        )
    registry.heartbeat(
        checks.HeartbeatMessage("off", "off", "6.5", [root(placement, "off", NODE, DISABLED)])
    )
    registry.set_status(StatusChange("off", disabled=True))
    placement.stranger.create_provider("somebody-elses")
    said = host.ctl("audit", "--all")
    assert (said.code, said.err) == (0, ""), said
    assert said.out.startswith("3 hosts, 4 providers, 11 calls to Placement\n")
    assert said.out.count(": none") == 5


def test_each_check_finds_what_it_is_for_and_says_what_to_do(host, registry, placement) -> None:
    fine = root(placement, "fine", NODE, DISABLED)
    registry.heartbeat(checks.HeartbeatMessage("fine", "a", "6.5", [fine]))
    registry.heartbeat(checks.HeartbeatMessage("away", "b", "6.5", [root(placement, "away", NODE)]))
    silence(registry, "away")
    registry.heartbeat(checks.HeartbeatMessage("lost", "c", "6.5", [AGGREGATE]))
    registry.heartbeat(checks.HeartbeatMessage("twin", "c", "6.5", [TWIN]))
    twin = root(placement, "twin", NODE)
    orphan = root(placement, "orphan", NODE)
    root(placement, "nova", NODE)
    storage, lone = root(placement, "storage", SHARES), root(placement, "lone", SHARES)
    for one in (fine, storage):
        placement.stranger.set_aggregates(one, {AGGREGATE})
    placement.request("PUT", "/traits/CUSTOM_LEFT_OVER")
    damage(
        placement,
        "DELETE FROM resource_provider_traits WHERE resource_provider_id ="
        " (SELECT id FROM resource_providers WHERE name = 'nova') AND trait_id ="
        f" (SELECT id FROM traits WHERE name = '{OWNER}')",
    )
    said = host.ctl("audit", "--all", "-f", "json")
    assert (said.code, said.err) == (1, ""), said
    found = rows(said)
    assert set(found) == {
        ("reporting", "error", "away"),
        ("reporting", "error", "lost"),
        ("reporting", "error", "twin"),
        ("orphans", "error", "twin"),
        ("orphans", "error", "orphan"),
        ("orphans", "error", "lone"),
        ("ownership", "info", "CUSTOM_LEFT_OVER"),
        ("status", "error", "fine"),
    }
    assert all(row["next_step"] for row in found.values())
    assert found["orphans", "error", "orphan"]["uuid"] == orphan
    assert found["reporting", "error", "twin"]["next_step"] == (
        f"twin is there as {twin}; if that is this host: computectl adopt twin on it"
    )
    dead = found["reporting", "error", "away"]["next_step"]
    assert "computectl service force-down away, computectl retire away" in dead
    assert lone in found["orphans", "error", "lone"]["next_step"]
    assert found["reporting", "error", "away"]["text"] == "no heartbeat for 2 h (enabled)"
    assert AGGREGATE in found["reporting", "error", "lost"]["text"]
    drawn = host.ctl("audit", "--all").out
    assert "  error    away: no heartbeat for 2 h (enabled)\n           → start" in drawn
    assert "allocations beyond the inventory: none" in drawn
    assert all(len(line) <= 80 for line in drawn.splitlines())


def test_allocations_that_no_inventory_covers_are_found(host, registry, placement) -> None:
    one, two, three = (root(placement, name, NODE) for name in ("one", "two", "three"))
    for name, own in (("one", one), ("two", two), ("three", three)):
        registry.heartbeat(checks.HeartbeatMessage(name, name, "6.5", [own]))
        placement.stranger.set_inventory(own, {"VCPU": {"total": 8}, "VGPU": {"total": 2}})
        placement.stranger.put_allocation({own: {"VCPU": 6, "VGPU": 1}})
    damage(
        placement,
        "DELETE FROM inventories WHERE resource_provider_id ="
        " (SELECT id FROM resource_providers WHERE uuid = ?) AND resource_class_id ="
        " (SELECT id FROM resource_classes WHERE name = 'VGPU')",
        one,
    )
    placement.stranger.set_inventory(two, {"VCPU": {"total": 4}, "VGPU": {"total": 2}})
    drained = {"total": 8, "reserved": 8}
    placement.stranger.set_inventory(three, {"VCPU": drained, "VGPU": {"total": 2}})
    mark = placement.mark()
    said = host.ctl("audit", "--all", "-f", "json")
    assert said.code == 1
    # 7 for the whole, and 2 for each of the 3 providers, which are all used.
    assert len(placement.since(mark)) == 7 + 2 * 3
    assert {request.method for request in placement.since(mark)} == {"GET"}
    texts = {key: row["text"] for key, row in rows(said).items()}
    assert texts == {
        ("allocations", "error", "one"): "1 VGPU allocated, but the provider has no such inventory",
        ("allocations", "warning", "two"): "6 VCPU allocated, but the capacity is 4",
        ("allocations", "info", "three"): "VCPU is drained (reserved = total), 6 still allocated",
    }


def test_inventory_without_a_host_and_unused_names_are_found(host, registry, placement) -> None:
    registry.heartbeat(
        checks.HeartbeatMessage("fine", "a", "6.5", [fine := root(placement, "fine", NODE)])
    )
    given_up = root(placement, "given-up", NODE)
    card = placement.stranger.create_child(given_up, "card")
    for name in ("FREE", "FULL", "DRAINED", "NOWHERE"):
        placement.request("PUT", f"/resource_classes/CUSTOM_{name}")
    one = {"total": 1}
    records = {"CUSTOM_FREE": one, "CUSTOM_FULL": one, "CUSTOM_DRAINED": {**one, "reserved": 1}}
    placement.stranger.set_inventory(fine, records)
    placement.stranger.put_allocation({fine: {"CUSTOM_FULL": 1}})
    placement.stranger.set_inventory(card, {"VGPU": one, "CUSTOM_FREE": one})
    found = rows(host.ctl("audit", "--all", "-f", "json"))
    told = {subject: row for (check, _, subject), row in found.items() if check == "ownership"}
    assert {subject: row["text"] for subject, row in told.items()} == {
        "card": "offers CUSTOM_FREE, VGPU to the scheduler, but no host reports it",
        "CUSTOM_NOWHERE": "no provider has free inventory of it",
    }
    assert (told["card"]["severity"], told["card"]["uuid"]) == ("warning", card)
    assert given_up in told["card"]["next_step"]


def test_many_hosts_are_read_tree_by_tree(host, registry, placement, monkeypatch) -> None:
    monkeypatch.setattr(fleet, "MANY_HOSTS", 1)
    for name in ("one", "two"):
        registry.heartbeat(
            checks.HeartbeatMessage(name, name, "6.5", [made := root(placement, name, NODE)])
        )
        placement.stranger.create_child(made, f"{name}-child")
    mark = placement.mark()
    said = host.ctl("audit", "--all")
    assert (said.code, said.err) == (0, ""), said
    assert "2 hosts, 4 providers" in said.out
    # 6 for the whole, 1 for each tree, 1 for each provider.
    assert len(placement.since(mark)) == 6 + 2 + 4


def test_an_older_placement_is_asked_what_it_knows(host, registry, placement) -> None:
    away = root(placement, "away", NODE, DISABLED)
    registry.heartbeat(checks.HeartbeatMessage("away", "b", "6.5", [away]))
    orphan = root(placement, "orphan", NODE)
    placement.stranger.set_inventory(away, {"VCPU": {"total": 8}})
    placement.stranger.put_allocation({away: {"VCPU": 6}})
    placement.stranger.set_inventory(away, {"VCPU": {"total": 4}})
    session = Session.from_config_files([str(host.config)], ())
    api = PlacementAPI(token_adapter(placement.url, "admin"))
    mark = placement.mark()
    audit = fleet.FleetAudit(
        Services(session), api, frozenset({OWNER}), None, DOWN_AFTER, lambda _: None
    ).run()  # a registry of the fleet, which may have a record of this host only
    assert {one.microversion for one in placement.since(mark)} == {"1.30"}
    assert audit.unknown == {}
    found = [(one.kind, one.uuid) for one in audit.findings]
    assert ("orphans", orphan) in found
    assert {check for check, _ in found} == {"orphans", "allocations", "status"}


def test_a_registry_of_one_host_can_not_tell_orphans(host, placement) -> None:
    registries.reported(host.directory / "state", roots=(root(placement, "host1", NODE),))
    root(placement, "host2", NODE)
    said = host.ctl("audit", "--all")
    assert said.code == 2
    assert "providers without a host: not checked" in said.out
    assert "[registry] access = rpc" in said.err


def test_without_placement_nothing_can_be_told(tmp_path) -> None:
    host = Here(tmp_path, "http://127.0.0.1:1")
    host.configure()
    said = host.ctl("audit", "--all")
    assert (said.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    assert "check that Placement is up" in said.err


# -- one host


def test_a_host_that_has_just_reported_passes_with_few_calls(reported, placement) -> None:
    mark = placement.mark()
    said = reported.ctl("audit")
    assert (said.code, said.err) == (0, ""), said
    requests = placement.since(mark)
    assert {request.method for request in requests} == {"GET"}
    assert len(requests) == 2 + 8  # 2, not 1: it has aggregates
    assert said.out.startswith("1 host, 8 providers, 10 calls to Placement\n")


def test_a_renamed_host_is_told_of_its_former_record(host, registry, placement) -> None:
    """Its roots move to the new record once that counts as down."""
    host.report("nodes: {host1: {inventory: {VCPU: 4}}}\n")
    for name in ("old", "host1"):
        address = f"{name} (boot 1, /state)"
        registry.heartbeat(
            checks.HeartbeatMessage(name, address, "6.5", [placement.uuids()["host1"]])
        )
    for words in (["audit"], ["audit", "--all"]):
        said = host.ctl(*words, "-f", "json")
        assert said.code == 0
        found = rows(said)["reporting", "info", "host1"]
        assert found["text"].startswith("was renamed: the record of old has its root provider")
        assert found["next_step"] == "wait; then: computectl service delete old"
    silence(registry, "old")
    registry.heartbeat(
        checks.HeartbeatMessage(
            "host1", "host1 (boot 1, /state)", "6.5", [placement.uuids()["host1"]]
        )
    )
    assert host.ctl("audit").code == 0
    found = rows(host.ctl("audit", "--all", "-f", "json"))["reporting", "warning", "old"]
    assert (found["text"], found["next_step"]) == (
        "was renamed to host1",
        "computectl service delete old",
    )


def test_a_host_whose_driver_knows_the_uuid_of_its_node_is_well(host, registry) -> None:
    node = "a0d17000-0000-4000-8000-000000000001"
    host.report(f"nodes: {{host1: {{uuid: {node}, inventory: {{VCPU: 4}}}}}}\n")
    registry.heartbeat(checks.HeartbeatMessage("host1", "here", "6.5", [node]))
    said = host.ctl("audit")
    assert (said.code, said.err) == (0, ""), said


def test_the_uuid_before_an_adoption_is_not_a_missing_root(host, registry, placement) -> None:
    known = root(placement, "host1", NODE)
    host.script("nodes: {host1: {inventory: {VCPU: 4}}}\n")
    assert host.agent().code == 1, "another UUID has its name"
    assert host.ctl("adopt", "host1").code == 0
    assert host.agent().code == 0
    registry.heartbeat(checks.HeartbeatMessage("host1", "here", "6.5", [known]))
    said = host.ctl("audit")
    assert "is not in Placement" not in said.out
    placement.empty()
    out = " ".join(host.ctl("audit").out.split())
    assert out.count("is not in Placement") == 1, "what it reports is missed"


def test_what_nobody_on_the_host_asserts_is_found(reported, placement) -> None:
    uuids = placement.uuids()
    numa0, numa1 = uuids["host1_numa0"], uuids["host1_numa1"]
    placement.stranger.add_trait(numa0, "HW_CPU_X86_MMX")
    placement.stranger.create_child(numa1, "neutrons")
    records = placement.request("GET", f"/resource_providers/{numa1}/inventories")["inventories"]
    placement.stranger.set_inventory(numa1, {**records, "FPGA": {"total": 1}})
    said = reported.ctl("audit", "-f", "json")
    assert (said.code, said.err) == (1, ""), said
    texts = {key: row["text"] for key, row in rows(said).items()}
    assert texts == {
        (
            "ownership",
            "warning",
            "host1_numa0",
        ): "no driver or provider file asserts HW_CPU_X86_MMX",
        ("ownership", "warning", "host1_numa1"): (
            "no driver or provider file asserts its inventory of FPGA"
        ),
        (
            "ownership",
            "info",
            "neutrons",
        ): "was created by another service, so this agent does not change it",
    }
    steps = {subject: row["next_step"] for (_, _, subject), row in rows(said).items()}
    # Without its class, or without the other traits, either command takes all away.
    assert steps["host1_numa1"].endswith(f"inventory delete {numa1} --resource-class FPGA")
    assert f"trait set {numa0} with a --trait for each that stays" in steps["host1_numa0"]


@pytest.mark.parametrize(
    ("first_in", "severity", "step"),
    [
        (3600.0, "info", "wait for compute-agent: started"),
        (None, "error", "computectl status shows why: compute-agent runs"),
    ],
)
def test_an_agent_that_runs_is_not_to_be_started(
    reported, placement, first_in, severity, step
) -> None:
    """This process stands for the agent."""
    placement.empty()
    status = StatusFile(reported.directory / "state", "host1", 60.0, time.time)
    status([Report("host1")]) if first_in is None else status.started(first_in)
    found = rows(reported.ctl("audit", "-f", "json"))
    [row] = [row for (check, *_), row in found.items() if check == "reporting"]
    assert row["severity"] == severity and row["next_step"].startswith(step)


def test_the_next_steps_of_what_nobody_asserts_leave_nothing_to_audit(reported, placement) -> None:
    uuids = placement.uuids()
    root, numa0 = uuids["host1"], uuids["host1_numa0"]
    placement.request("PUT", "/traits/CUSTOM_RACK_7")
    for trait in ("CUSTOM_RACK_7", "OWNER_NOVA", "HW_CPU_X86_MMX"):
        placement.stranger.add_trait(root, trait)
    placement.stranger.add_trait(root, DISABLED)  # the agent's, also before it is in the ledger
    records = placement.request("GET", f"/resource_providers/{numa0}/inventories")["inventories"]
    placement.stranger.set_inventory(numa0, {**records, "FPGA": {"total": 1}})
    found = [
        row for row in reported.ctl("audit", "-f", "json").json() if row["check"] == "ownership"
    ]
    assert all(DISABLED not in row["text"] for row in found)
    steps = {row["text"].split()[-1]: row["next_step"] for row in found}
    assert "declare it in a provider file" in steps["CUSTOM_RACK_7"]
    assert "add OWNER_NOVA to [compute] owner_trait" in steps["OWNER_NOVA"]
    for name in ("HW_CPU_X86_MMX", "FPGA"):
        assert steps[name].startswith("it stays until it is removed")
    files = reported.directory / "provider_config"
    files.mkdir()
    (files / "rack.yaml").write_text(
        "meta: {schema_version: '1.0'}\nproviders:\n- identification: {name: host1}\n"
        "  traits: {additional: [CUSTOM_RACK_7]}\n"
    )
    reported.configure(
        more=f"[compute]\nowner_trait = {OWNER}, OWNER_NOVA\nprovider_config_location = {files}\n"
        f"[registry]\nservice_down_time = {DOWN_AFTER}"
    )
    placement.stranger.remove_trait(root, "HW_CPU_X86_MMX")
    placement.stranger.set_inventory(numa0, records)
    assert reported.agent().code == 0
    said = reported.ctl("audit", "-f", "json")
    assert [row for row in said.json() if row["check"] != "reporting"] == [], said.out


def test_a_placement_that_was_restored_is_named(host, placement, tmp_path) -> None:
    """Until the agent has seen that its guests have their allocations."""
    host.report(DEFAULT_SCRIPT.read_text())
    back_up(placement, tmp_path / "backup.sqlite")
    host.report(DEFAULT_SCRIPT.read_text().replace("total: 32,", "total: 40,"))
    restore(placement, tmp_path / "backup.sqlite")
    row = rows(host.ctl("audit", "-f", "json"))[
        "allocations", "warning", placement.uuids()["host1"]
    ]
    assert "restored or emptied" in row["text"] and "heal_allocations" in row["next_step"]
    host.report(DEFAULT_SCRIPT.read_text())
    assert "restored or emptied" not in host.ctl("audit").out


def test_record_and_trait_are_compared(reported, registry, placement) -> None:
    registry.set_status(StatusChange("host1", disabled=True))
    silence(registry, "host1")
    found = rows(said := reported.ctl("audit", "-f", "json"))
    assert said.code == 1
    assert found["status", "error", "host1"]["text"] == (
        f"disabled in its service record, but {DISABLED} is on none of its roots"
    )
    assert found["reporting", "warning", "host1"]["text"] == "no heartbeat for 2 h (disabled)"


def test_a_host_that_never_reported_can_not_be_told(host) -> None:
    said = host.ctl("audit")
    assert said.code == 2
    assert "no compute_id" in said.err
