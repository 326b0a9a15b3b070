"""Whatever node-device documents say, what is reported is what Placement takes.

Parts are left out, doubled or nonsense at random; devices point at each other or nowhere.
"""

import copy
import json
from xml.etree import ElementTree as ET

from hypothesis import given
from hypothesis import settings as running
from hypothesis import strategies as st

from drivers.api import ReshapeFailed, ReshapeNeeded
from drivers.libvirt.devices.device_spec import device_specs
from drivers.libvirt.devices.encryption import EncryptionAnswer
from drivers.libvirt.devices.pci import PciSettings
from drivers.libvirt.devices.vgpu import MdevSettings, MdevType
from drivers.libvirt.facts.numa import MemoryPolicy
from reportclient.model import name_problem
from reportclient.reshape import Affected, moved_allocations
from tests.profiles import examples
from tests.property.strategies import element
from tests.unit.libvirt.devices import devices, mdev, net, pci
from tests.unit.libvirt.hosts import check, new_tree, reading, two_cells, written

COUNTS = st.sampled_from(["0", "1", "4", "", "-3", "many", "99999999999999"])


def maybe(found):
    return st.one_of(found, st.none())


PLACES = [f"0000:00:0{slot}.{function}" for slot in range(3) for function in range(2)]
MAKERS = [("8086", "154c"), ("8086", "1572"), ("10de", "1eb8")]
orderly = st.one_of(
    st.builds(
        pci,
        st.sampled_from(PLACES),
        st.sampled_from(MAKERS),
        st.sampled_from([None, 0, 1, 7]),
        maybe(st.sampled_from(PLACES)),
        st.sampled_from([None, None, [], PLACES[:2]]),
        st.sampled_from([None, None, {"a": 2, "b": 1}, {"a": 0}, {"b": 16}]),
    ),
    st.builds(
        mdev, st.integers(0, 5), st.sampled_from("ab"), st.sampled_from(PLACES), st.booleans()
    ),
    st.builds(net, st.just("eth0"), st.sampled_from(PLACES)),
).map(ET.fromstring)


def damaged(document, damages):
    """Some elements of it are others, empty, doubled or not there."""
    for where, what in damages:
        parents = [one for one in document.iter() if len(one)]
        if not parents:
            break
        parent = parents[where % len(parents)]
        child = parent[where % len(parent)]
        if what == "gone":
            parent.remove(child)
        elif what == "twice":
            parent.append(copy.deepcopy(child))
        elif child.attrib:
            child.set(sorted(child.attrib)[where % len(child.attrib)], what)
        else:
            child.text = what
    return document


WRONG = ["gone", "twice", "", "0", "1", "-1", "x", "pci", "mdev", "virt_functions", "ünï/cödé"]
WRONG += ["99999999999", "4294967295", "0x12345", "pci_0000_00_01_0", "eth0", "x" * 230]
damage = st.tuples(st.integers(0, 99), st.sampled_from(WRONG))
device = st.one_of(
    orderly,
    st.builds(damaged, orderly, st.lists(damage, min_size=1, max_size=1)),
    st.builds(damaged, orderly, st.lists(damage, min_size=2, max_size=6)),
)


sev = st.builds(
    lambda yes, guests, es: element(
        "domainCapabilities",
        children=[
            element(
                "features",
                children=[
                    element(
                        "sev",
                        children=[element("maxGuests", guests), element("maxESGuests", es)],
                        supported=yes,
                    )
                ],
            )
        ],
    ),
    st.sampled_from(["yes", "no", None]),
    COUNTS,
    COUNTS,
)
entries = st.sampled_from(
    [
        {},
        {"vendor_id": "8086"},
        {"address": "0000:00:01.0", "traits": "a"},
        {"address": {"slot": "0[01]"}, "resource_class": "CUSTOM_B"},
        {"devname": "eth0", "physical_network": "n"},
        {"one_time_use": "true", "product_id": "154c"},
        {"remote_managed": "true"},
    ]
)
settings = st.builds(
    lambda specs, networks, group, kinds, limit, number: {
        "pci": PciSettings(device_specs([json.dumps(specs)]), networks, group),
        "mdev": MdevSettings(
            tuple(
                MdevType(k, resource_class="CUSTOM_" + k.upper(), max_instances=limit)
                for k in kinds[:1]
            )
            or (MdevType("a"),),
            group,
        ),
        "sev_limit": number,
        "tdx_limit": number,
        "passes_cpu": networks,
    },
    st.lists(entries, min_size=1, max_size=3),
    st.booleans(),
    st.booleans(),
    st.lists(st.sampled_from("ab"), max_size=1),
    st.sampled_from([None, 1, 3]),
    st.sampled_from([None, 0, 5]),
)
found = st.builds(
    lambda listed, told: {
        "devices": None
        if listed is None
        else devices(*(ET.tostring(each, "unicode") for each in listed)),
        "encryption": None if told is None else EncryptionAnswer(told),
    },
    st.one_of(*[st.lists(device, min_size=2, max_size=8)] * 9, st.none()),
    maybe(sev),
)
numa = st.sampled_from(["off", "nested"])


def settled(tree, look, **choice):
    """After as many periods as a change may take: a class goes before another comes."""
    for _ in range(3):
        try:
            tree = written(tree, look, **choice)
        except ReshapeNeeded:
            tree = written(tree, look, {}, **choice)
    return tree


memory = st.builds(MemoryPolicy, st.sampled_from(["off", "pages"]))
choices = st.builds(
    lambda wanted, more: {**wanted, **more},
    settings,
    st.fixed_dictionaries({"report_numa": numa, "memory": memory}),
)
HUGE = two_cells(pages={2048: 64})


@running(max_examples=examples(200))
@given(found, found, choices, choices, st.integers(1, 3), st.booleans())
def test_a_host_that_becomes_any_other_keeps_what_guests_have(
    devices, later, before, after, amount, together
):
    tree = written(new_tree(), reading(HUGE, **devices), **before)
    check(tree)
    held = guests_of(tree, amount, together=together)
    then, there = copy.deepcopy(held), tree.freeze()
    look = reading(HUGE, **later)
    try:
        tree = written(tree, look, **after)
    except ReshapeNeeded:
        try:
            tree = written(tree, look, held, **after)
        except ReshapeFailed:
            return
        moved_allocations(
            then, held, Affected.between(there, tree.freeze())
        )  # as the agent checks it
        for parts in held.values():
            for uuid, part in parts["allocations"].items():
                assert part["resources"].keys() <= tree.data(uuid).inventory.keys()
    check(tree)
    tree = settled(tree, look, **after)
    check(tree)
    assert written(tree, look, **after).freeze() == tree.freeze()


def guests_of(tree, amount, *, together):
    """Guests that have some of everything: one, or one on each provider."""
    held = {}
    for number, provider in enumerate(tree.freeze().walk()):
        resources = {
            n: min(amount, r.max_unit or 1) for n, r in provider.inventory.items() if n != "DISK_GB"
        }
        who = "all" if together else str(number)
        if resources:
            parts = held.setdefault(who, {"allocations": {}})["allocations"]
            parts[provider.uuid] = {"resources": resources}
    return held


@given(st.text(max_size=60))
def test_any_text_is_an_entry_or_is_refused_in_words(text):
    try:
        device_specs([text])
    except ValueError as err:
        assert str(err).startswith("[pci] device_spec = ")


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8)),
        lambda inside: st.one_of(
            st.lists(inside, max_size=2),
            st.dictionaries(
                st.sampled_from(
                    ["address", "vendor_id", "traits", "resource_class", "bus", "managed"]
                ),
                inside,
                max_size=3,
            ),
        ),
        max_leaves=6,
    )
)
def test_any_json_is_an_entry_or_is_refused_in_words(value):
    try:
        specs = device_specs([json.dumps(value)])
    except ValueError as err:
        assert str(err).startswith("[pci] device_spec = ")
    else:
        for spec in specs:
            assert not [t for t in spec.traits if name_problem(t, "trait")]
            assert spec.resource_class is None or not name_problem(spec.resource_class, "class")
