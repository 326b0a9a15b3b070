"""What the libvirt driver moves, allocations and all, from whole periods; and what it may not."""

from typing import Any

import pytest

from drivers.libvirt.tree.reported import (
    CELLS,
    ENCRYPTION,
    PCI,
    HostReport,
    ReportedProvider,
    child_uuid,
    merge_reports,
)
from tests.ownership.world import NODE, ROOT, SOON, Host, reporting, settled_host

OLD, NEW, THIRD = (f"{NODE}_0000:8{n}:00.0" for n in (1, 2, 3))
CPUS = {"VCPU": {"total": 8}}


def card(name: str, *, replaces: tuple[str, ...] = (), cell: int | None = None, **records: Any):
    return ReportedProvider(name, records, replaces=frozenset(replaces), cell=cell)


def slots(total: int, **more: int) -> dict[str, int]:
    return {"total": total, **more}


def says(*children: ReportedProvider, **more: Any) -> Any:
    return reporting(HostReport(CPUS, {}, children, **more))


def held(host: Host, guest: str) -> dict[str, dict[str, int]]:
    """What a guest has, by the name of the provider."""
    found = host.stranger.allocation(guest)["allocations"]
    return {host.stranger.provider(uuid)["name"]: part["resources"] for uuid, part in found.items()}


def uses(host: Host, provider: str, **amounts: int) -> str:
    return host.stranger.put_allocation({host.uuid(provider): amounts})


def test_a_device_in_use_gets_no_second_class_by_a_reshape_of_another(placement) -> None:
    other = f"{NODE}_0000:85:00.0"
    host = settled_host(
        placement,
        {"libvirt": says(card(OLD, CUSTOM_SLOT=slots(4)), card(other, CUSTOM_A=slots(1)))},
    )
    moving, guest = uses(host, OLD, CUSTOM_SLOT=3), uses(host, other, CUSTOM_A=1)
    now = (card(NEW, CUSTOM_SLOT=slots(4), replaces=(OLD,)), card(other, CUSTOM_B=slots(1)))
    host.restart(libvirt=says(*now))
    assert host.period().ok and held(host, moving) == {NEW: {"CUSTOM_SLOT": 3}}
    assert host.totals(other) == {"CUSTOM_A": 1}
    host.period()
    assert (host.totals(other), host.reserved(other)) == ({"CUSTOM_A": 1}, {"CUSTOM_A": 1})
    host.stranger.delete_allocation(guest)
    host.period()
    assert host.totals(other) == {"CUSTOM_B": 1}


def test_an_heir_that_has_the_class_already_gets_nothing_more(placement) -> None:
    """That the old one still has some is left of an earlier change: it is drained."""
    both = (card(OLD, CUSTOM_SLOT=slots(4)), card(NEW, CUSTOM_SLOT=slots(4)))
    host = settled_host(placement, {"libvirt": says(*both)})
    guest = uses(host, OLD, CUSTOM_SLOT=3)
    report = host.restart(libvirt=says(card(NEW, CUSTOM_SLOT=slots(4), replaces=(OLD,)))).period()
    assert not report.reshape_pending and not report.driver_errors
    host.period()
    assert held(host, guest) == {OLD: {"CUSTOM_SLOT": 3}}
    assert (host.reserved(OLD), host.reserved(NEW)) == ({"CUSTOM_SLOT": 4}, {"CUSTOM_SLOT": 0})
    host.stranger.delete_allocation(guest)
    host.period()
    host.settled()
    assert host.names() == {NODE, NEW}


def test_what_does_not_depend_on_a_move_is_reported_while_it_is_pending(placement) -> None:
    gone, other = f"{NODE}_0000:84:00.0", f"{NODE}_0000:85:00.0"
    first = (card(OLD, CUSTOM_SLOT=slots(4)), card(gone, CUSTOM_SLOT=slots(1)))
    host = settled_host(placement, {"libvirt": says(*first, traits={"HW_CPU_X86_AVX": True})})
    guest = uses(host, OLD, CUSTOM_SLOT=3)
    heir = card(NEW, CUSTOM_SLOT=slots(4), replaces=(OLD,))
    more = card(other, CUSTOM_SLOT=slots(2))
    traits = {"HW_CPU_X86_AVX": False, "HW_CPU_X86_SHA": True}
    now = HostReport({"VCPU": {"total": 16}}, {}, (heir, more), traits=traits)
    report = host.says(libvirt=reporting(now)).period(SOON)
    assert report.reshape_pending == ("libvirt",) and not report.driver_errors
    assert host.totals() == {"VCPU": 16}
    assert {"HW_CPU_X86_AVX", "HW_CPU_X86_SHA"} & host.traits() == {"HW_CPU_X86_SHA"}
    assert host.names() == {NODE, OLD, gone, other}, "also of the class that moves"
    assert held(host, guest) == {OLD: {"CUSTOM_SLOT": 3}}
    host.period(SOON)
    assert host.names() == {NODE, OLD, other}, "one has gone"
    assert not host.period(SOON).done, "it is said once"
    host.restart().period()
    host.settled()
    assert held(host, guest) == {NEW: {"CUSTOM_SLOT": 3}}
    assert host.names() == {NODE, NEW, other}


def test_cells_are_made_by_the_reshape_and_devices_wait_on_the_root(placement) -> None:
    memory, disk = {"MEMORY_MB": {"total": 4096}}, {"DISK_GB": {"total": 10}}
    host = settled_host(placement, {"libvirt": reporting(HostReport({**CPUS, **memory, **disk}))})
    guest = host.stranger.put_allocation({ROOT: {"VCPU": 1, "MEMORY_MB": 64, "DISK_GB": 1}})
    cells = {0: ReportedProvider(f"{NODE}_numa0", {**CPUS, **memory}, source=CELLS)}
    nested = HostReport({"DISK_GB": {"total": 20}}, cells, [card(NEW, cell=0, FPGA=slots(1))])
    assert host.says(libvirt=reporting(nested)).period(SOON).reshape_pending == ("libvirt",)
    assert host.totals() == {"VCPU": 8, "MEMORY_MB": 4096, "DISK_GB": 20}
    assert host.names() == {NODE, NEW} and host.parent(NEW) == NODE
    host.restart().period()
    host.settled()
    assert host.totals() == {"DISK_GB": 20} and host.parent(NEW) == f"{NODE}_numa0"
    assert held(host, guest) == {
        NODE: {"DISK_GB": 1},
        f"{NODE}_numa0": {"VCPU": 1, "MEMORY_MB": 64},
    }


def test_a_drained_device_of_a_renamed_host_is_open_once_it_is_reported(
    placement, tmp_path
) -> None:
    before, after = "old_0000:81:00.0", f"{NODE}_0000:81:00.0"

    def made_under_the_old_name(tree: Any) -> None:
        if not tree.exists(before):
            tree.new_child(before, NODE, child_uuid(ROOT, "0000:81:00.0"))
        tree.update_inventory(before, {"CUSTOM_SLOT": {"total": 4}})

    host = settled_host(placement, {"libvirt": made_under_the_old_name}, tmp_path)
    guest = uses(host, before, CUSTOM_SLOT=1)
    host.says(libvirt=says()).period()
    assert host.reserved(before) == {"CUSTOM_SLOT": 4}
    host.restart(libvirt=says(card(after, CUSTOM_SLOT=slots(4)))).period()
    host.period()
    assert host.totals(after) == {"CUSTOM_SLOT": 4}
    host.stranger.delete_allocation(guest)
    host.period()
    host.period()
    assert host.reserved(after) == {"CUSTOM_SLOT": 0}


@pytest.mark.parametrize("restart", [True, False])
def test_a_silent_source_loses_nothing_and_holds_nobody_else_up(
    placement, tmp_path, restart: bool
) -> None:
    sev = ReportedProvider(
        f"{NODE}_amd_sev", {"MEM_ENCRYPTION_CONTEXT": slots(9)}, source=ENCRYPTION
    )
    host = settled_host(
        placement, {"libvirt": says(card(OLD, CUSTOM_SLOT=slots(4)), sev)}, tmp_path
    )
    unanswered = reporting(HostReport({"FPGA": {"total": 1}}, unanswered=frozenset({PCI})))
    if restart:
        host.restart(libvirt=unanswered)
    host.says(libvirt=unanswered).settled()
    assert host.totals(OLD) == {"CUSTOM_SLOT": 4}
    assert host.totals() == {"FPGA": 1} and host.names() == {NODE, OLD}
    host.says(libvirt=says()).settled()
    assert host.names() == {NODE}


def root_of(**parts: dict[str, Any]) -> Any:
    """What facts say of the root, by their names; ``None``: it could never be read."""
    said = {
        name: HostReport(inventory)
        if inventory is not None
        else HostReport(unanswered=frozenset({name}), unchanged_classes=frozenset({"DISK_GB"}))
        for name, inventory in parts.items()
    }
    return lambda tree: reporting(merge_reports(said, tree.data(NODE).inventory))(tree, None)


@pytest.mark.parametrize("restart", [True, False])
def test_a_disk_that_was_never_read_keeps_its_own_part_and_nothing_else(
    placement, tmp_path, restart: bool
) -> None:
    disk, pmem = {"DISK_GB": slots(9)}, {"CUSTOM_PMEM_NAMESPACE_A": slots(1)}
    host = settled_host(placement, {"libvirt": root_of(host=CPUS, disk=disk, pmem=pmem)}, tmp_path)
    unread = root_of(host={"FPGA": slots(1)}, disk=None, pmem={})
    if restart:
        host.restart(libvirt=unread)
    host.says(libvirt=unread).settled()
    assert host.totals() == {"FPGA": 1, "DISK_GB": 9}, "others' classes go all the same"
    host.says(libvirt=root_of(host={"FPGA": slots(1)}, disk={}, pmem={})).settled()
    assert host.totals() == {"FPGA": 1}


@pytest.mark.parametrize("attached", [True, False])
def test_what_nova_made_here_before_goes_but_not_while_nova_is_at_work(
    placement, tmp_path, attached: bool
) -> None:
    if attached:
        placement.stranger.create_provider(NODE, ROOT)
    children = reporting(HostReport({} if attached else CPUS))
    host = settled_host(placement, {"libvirt": children}, tmp_path, attached=attached)
    novas = host.stranger.create_child(ROOT, OLD)
    host.stranger.set_inventory(novas, {"CUSTOM_SLOT": slots(1)})
    host.stranger.add_trait(novas, "COMPUTE_MANAGED_PCI_DEVICE")
    host.period()
    host.settled()
    assert host.is_there(OLD) is attached
