"""Memory encryption: how many guests, of which technique, and the old place on the root."""

from xml.etree.ElementTree import fromstring

import pytest

from drivers.errors import ReshapeNeeded
from drivers.libvirt.devices.encryption import (
    CONTEXT,
    SEV,
    SEV_ES,
    SEV_SNP,
    TDX,
    TDX_OPTION,
    EncryptionAnswer,
)
from drivers.libvirt.tree.reported import child_uuid
from reportclient.model import MAX_INT
from tests.unit.libvirt.devices import sev
from tests.unit.libvirt.hosts import NODE, ROOT, new_tree, reading, report_of, written

ON_SEV, ON_ES, ON_TDX = f"{NODE}_amd_sev", f"{NODE}_amd_sev_es", f"{NODE}_intel_tdx"
ON_SNP = f"{NODE}_amd_sev_snp"


def look(told, off=(), on=(), keys=None):
    switches = dict.fromkeys(off, False) | dict.fromkeys(on, True)
    return reading(encryption=EncryptionAnswer(fromstring(told), switches, keys))


def found(tree):
    below = [tree.data(uuid) for uuid in tree.get_provider_uuids(ROOT)[1:]]
    return {one.name: (one.inventory[CONTEXT]["total"], set(one.traits)) for one in below}


def test_sev_and_sev_es_are_providers_with_their_traits():
    tree = written(new_tree(), look(sev(15, 84)))
    assert found(tree) == {
        ON_SEV: (15, {"HW_CPU_X86_AMD_SEV"}),
        ON_ES: (84, {"HW_CPU_X86_AMD_SEV_ES"}),
    }
    assert tree.data(ON_SEV).inventory[CONTEXT]["max_unit"] == 1


@pytest.mark.parametrize(
    ("told", "off", "expected"),
    [
        (sev(supported="no"), (), {}),
        ("<domainCapabilities/>", (), {}),
        (sev(None, None), (), {ON_SEV: MAX_INT}),
        (sev(0, 500), (), {ON_ES: 500}),
        (sev(15, 0), (), {ON_SEV: 15}),
        (sev(15, 84), (SEV_ES,), {ON_SEV: 15}),
        (sev(15, 84), (SEV, SEV_ES), {}),
        (sev(15, 84), (SEV,), {}),
    ],
)
def test_what_counts_is_what_libvirt_and_the_kernel_say(told, off, expected):
    tree = written(new_tree(), look(told, off))
    assert {name: total for name, (total, _) in found(tree).items()} == expected


@pytest.mark.parametrize(
    "features",
    [
        "<tdx supported='yes'/>",
        "<launchSecurity supported='yes'><enum name='sectype'><value>sev</value>"
        "<value>tdx</value></enum></launchSecurity>",
    ],
)
def test_tdx_where_libvirt_tells(features):
    told = f"<domainCapabilities><features>{features}</features></domainCapabilities>"
    passed = {"passes_cpu": True}
    tree = written(new_tree(), look(told, keys=31), **passed)
    assert found(tree) == {ON_TDX: (31, {"HW_CPU_X86_INTEL_TDX"})}


TDX_CAPABLE = "<domainCapabilities><features><tdx supported='yes'/></features></domainCapabilities>"


@pytest.mark.parametrize(
    ("keys", "limit", "passed", "total", "words"),
    [
        (31, None, True, 31, ""),
        (31, 10, True, 10, ""),
        (31, 40, True, 31, "can run 31 such guests"),
        (None, 10, True, 10, ""),
        (None, None, True, None, "none is reported, or the last number stays"),
        (31, None, False, None, ""),
        (31, 10, False, None, "cpu_mode = host-passthrough"),
        (31, 0, True, None, ""),
    ],
)
def test_tdx_counts_the_keys_and_needs_the_hosts_cpu(keys, limit, passed, total, words):
    settings = {"tdx_limit": limit, "passes_cpu": passed}
    seen = look(TDX_CAPABLE, keys=keys)
    assert found(written(new_tree(), seen, **settings)).get(ON_TDX, (None,))[0] == total
    notes = report_of(new_tree(), seen, **settings).notes
    assert words in notes.get(TDX_OPTION, "") and bool(notes) == bool(words)


def test_tdx_stays_while_the_kernel_does_not_say_how_many_keys_there_are():
    tree = written(new_tree(), look(TDX_CAPABLE, keys=31), passes_cpu=True)
    assert found(written(tree, look(TDX_CAPABLE), passes_cpu=True)) == found(tree)
    assert found(written(tree, look(TDX_CAPABLE, [TDX]), passes_cpu=True)) == {}


SNP = sev(15, 84).replace(
    "</features>",
    "<launchSecurity supported='yes'><enum name='sectype'><value>sev-snp</value></enum>"
    "</launchSecurity></features>",
)


@pytest.mark.parametrize(
    ("told", "on", "names"),
    [
        (SNP, (SEV, SEV_ES, SEV_SNP), {ON_SEV, ON_SNP}),
        (SNP, (SEV, SEV_ES), {ON_SEV, ON_ES}),
        (sev(15, 84), (SEV, SEV_ES, SEV_SNP), {ON_SEV, ON_ES}),
    ],
)
def test_sev_snp_replaces_sev_es_where_kernel_and_libvirt_have_it(told, on, names):
    tree = written(new_tree(), look(told, on=on))
    assert set(found(tree)) == names
    if ON_SNP in names:
        assert found(tree)[ON_SNP] == (84, {"HW_CPU_X86_AMD_SEV_SNP"})


@pytest.mark.parametrize(
    ("number", "told", "total", "words"),
    [
        (10, sev(15, 0), 10, ""),
        (20, sev(15, 0), 15, "can run 15 such guests"),
        (10, sev(None, 0), 10, ""),
        (0, sev(15, 0), None, ""),
        (5, sev(supported="no"), None, "can't encrypt"),
    ],
)
def test_an_operator_can_lower_the_number(number, told, total, words):
    tree = written(new_tree(), look(told), sev_limit=number)
    assert found(tree).get(ON_SEV, (None,))[0] == total
    notes = report_of(new_tree(), look(told), sev_limit=number).notes
    assert words in notes.get("[libvirt] num_memory_encrypted_guests", "")
    assert bool(notes) == bool(words)


def old_tree():
    tree = written(new_tree(), look("<domainCapabilities/>"))
    tree.update_inventory(ROOT, {**tree.data(ROOT).inventory, CONTEXT: {"total": 15}})
    tree.add_traits(ROOT, "HW_CPU_X86_AMD_SEV", "CUSTOM_STRANGE")
    return tree


def test_contexts_on_the_root_move_with_their_allocations_and_the_trait():
    with pytest.raises(ReshapeNeeded, match=CONTEXT):
        written(old_tree(), look(sev()))
    held = {"a": {"allocations": {ROOT: {"resources": {CONTEXT: 1, "VCPU": 2}}}}}
    tree = written(old_tree(), look(sev()), held)
    assert held["a"]["allocations"] == {
        ROOT: {"resources": {"VCPU": 2}},
        child_uuid(ROOT, SEV): {"resources": {CONTEXT: 1}},
    }
    root = tree.data(ROOT)
    assert CONTEXT not in root.inventory
    assert "CUSTOM_STRANGE" in root.traits and "HW_CPU_X86_AMD_SEV" not in root.traits


def test_what_could_not_be_asked_stays_where_it_is():
    assert (
        written(old_tree(), reading(encryption=None)).data(ROOT).inventory[CONTEXT]["total"] == 15
    )
    tree = written(new_tree(), look(sev()))
    later = written(tree, reading(encryption=None))
    assert found(later) == found(tree)
    assert found(written(later, look(sev(supported="no")))) == {}
