"""``remove_traits`` and ``remove_aggregates`` take away what is there, whoever set it; with limits."""

import itertools
import logging

import pytest

from tests.ownership.world import (
    EVERY_ROOT,
    NODE,
    ROOT,
    SOON,
    VERIFY,
    Host,
    both,
    entry,
    inventory,
    settled_host,
)

AVX2, RACK = "HW_CPU_X86_AVX2", "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01"


def denies(*names: str, provider: str = NODE, rack: str = ""):
    def body(tree) -> None:
        tree.remove_traits(provider, *names)
        if rack:
            tree.remove_aggregates(provider, rack)

    return body


CPUS = inventory(VCPU=8)


@pytest.fixture
def host(placement, tmp_path) -> Host:
    """Nova reported it before: the root has traits of a CPU that this host does not have."""
    placement.stranger.create_provider(NODE, ROOT)
    placement.stranger.add_trait(ROOT, "COMPUTE_NODE")
    placement.stranger.add_trait(ROOT, AVX2)
    placement.stranger.set_aggregates(ROOT, [RACK])
    host = settled_host(placement, {"d": CPUS}, state=tmp_path)
    host.says(d=both(CPUS, denies(AVX2, rack=RACK)))
    return host


def has(host: Host, name: str = AVX2, provider: str = NODE) -> bool:
    return name in host.traits(provider) | host.aggregates(provider)


def sets(host: Host, name: str = AVX2, provider: str = NODE) -> None:
    """Another service sets it."""
    if name == RACK:
        host.stranger.set_aggregates(host.uuid(provider), [RACK])
    else:
        host.stranger.add_trait(host.uuid(provider), name)


@pytest.mark.parametrize("name", [AVX2, RACK])
def test_what_a_driver_takes_away_goes_whoever_set_it(host, name, caplog) -> None:
    caplog.set_level(logging.INFO)
    host.settled()
    assert not has(host, name)
    assert (
        caplog.text.count(f"removed {name} from provider {NODE}: driver d reports it absent") == 1
    )


def test_a_set_names_nothing_as_absent(host) -> None:
    def body(tree) -> None:
        CPUS(tree)
        tree.update_traits(NODE, ["HW_CPU_X86_AVX"])
        tree.update_aggregates(NODE, [])

    host.says(d=body).settled()
    assert has(host) and has(host, RACK) and has(host, "HW_CPU_X86_AVX")


def test_not_in_the_period_in_which_the_provider_becomes_ours(host) -> None:
    host.lose_all()
    host.restart().period()
    assert has(host)
    host.period()
    assert not has(host)


def test_what_a_provider_file_found_there_is_its_claim_too(host, tmp_path) -> None:
    """Else the driver and the file would take turns."""
    sets(host, "CUSTOM_GOLD")
    files = tmp_path / "files"
    files.mkdir()
    host.files = files
    host.restart(d=both(CPUS, denies("CUSTOM_GOLD")))
    host.write_file(entry(EVERY_ROOT, "CUSTOM_GOLD")).settled()
    assert has(host, "CUSTOM_GOLD")
    host.write_file().settled()
    assert not has(host, "CUSTOM_GOLD")


def test_files_that_nobody_can_read_may_claim_it(host, tmp_path) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.yaml").write_text("]")
    host.files = files
    host.restart()  # with the driver that denies it
    for _ in range(3):
        host.period()
    assert has(host)


def test_it_goes_again_at_doubled_gaps_and_a_contest_is_told(host) -> None:
    """With a verification every 300 s: removed at once, then after 300 s, 600 s, 1,200 s."""
    host.period()
    assert not has(host)
    removed_at, complaint = [host.now], ""
    for _ in range(400):
        if not has(host):
            sets(host)
        complaint = host.complaints(SOON)
        if not has(host):
            removed_at.append(host.now)
        if len(removed_at) == 5:
            break
        if len(removed_at) < 3:
            assert "set again" not in complaint
    gaps = [after - before for before, after in itertools.pairwise(removed_at)]
    for number, gap in enumerate(gaps):
        assert gap >= VERIFY * 2**number
    host.period(SOON)
    sets(host)
    complaint = host.complaints()
    assert f"{AVX2} of provider {ROOT}" in complaint and "driver d reports it absent" in complaint
    host.says(d=CPUS)
    assert not host.complaints()
    assert has(host), "the driver does not deny it any more"


def test_denying_what_nobody_sets_costs_nothing(host) -> None:
    host.settled()
    assert host.calls_of(lambda: host.period(SOON)) == []
