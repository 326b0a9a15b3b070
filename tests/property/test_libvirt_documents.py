"""Whatever a capabilities document says, what is reported is what Placement takes.

Documents follow libvirt's schema (capability.rng), with parts that are optional there
left out at random, sizes from nothing to absurd, and now and then what is no schema.
"""

import re
from xml.etree import ElementTree as ET

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drivers.api import ProviderTree, ReshapeNeeded
from drivers.inventory import InventoryPolicy
from drivers.libvirt.documents import parse_document
from drivers.libvirt.facts.numa import MemoryPolicy, ReservedPages
from tests.property.strategies import element
from tests.unit.libvirt.hosts import ARCH_TRAITS, CPU_TRAITS, new_tree, reading, written
from tests.unit.libvirt.hosts import check as valid

UNITS = st.sampled_from([None, "KiB", "KiB", "MiB", "GiB", "b", "bytes", "KB", "T", "nonsense"])
AMOUNTS = st.one_of(
    st.integers(0, 3).map(str),
    st.integers(0, 2**33).map(str),
    st.sampled_from(["", "-1", "many", "99999999999999999999", "1.5"]),
)
SIZES = st.sampled_from(
    ["4", "16", "64", "2048", "16384", "524288", "1048576", "16777216", "0", ""]
)
IDS = st.one_of(st.integers(0, 12).map(str), st.sampled_from(["", "x", "-1", "70000"]))

pages = st.builds(
    lambda size, unit, text: element("pages", text, size=size, unit=unit), SIZES, UNITS, AMOUNTS
)
memory = st.builds(lambda unit, text: element("memory", text, unit=unit), UNITS, AMOUNTS)
cpus = st.builds(
    lambda number, siblings, socket: element("cpu", id=number, siblings=siblings, socket_id=socket),
    IDS,
    st.sampled_from([None, "0-1", "2,6", "0-11", "x", ""]),
    st.sampled_from([None, "0", "1"]),
)
distances = st.just(element("distances", children=[element("sibling", id="0", value="10")]))


def cell(number, parts, listed):
    return element("cell", children=[*parts, element("cpus", children=listed)], id=number)


cells = st.builds(
    cell,
    st.one_of(st.integers(0, 9).map(str), st.sampled_from([None, "", "x", "99999999999999"])),
    st.lists(st.one_of(pages, memory, distances), max_size=4),
    st.lists(cpus, max_size=6),
)
models = st.sampled_from([None, "EPYC", "POWER9", "Skylake-Client", "unheard-of"])
arches = st.sampled_from([None, "x86_64", "i686", "aarch64", "ppc64le", "s390x", "riscv64", "z80"])


def host_cpu(arch, model, features, listed):
    made = element("cpu", children=listed)
    for tag, text in (("arch", arch), ("model", model)):
        if text is not None:
            made.append(element(tag, text))
    made.extend(element("feature", name=name) for name in features)
    return made


cpu_elements = st.builds(
    host_cpu,
    arches,
    models,
    st.lists(st.sampled_from(["vmx", "svm", "avx2", "sve", "aes", "", "x"]), max_size=4),
    st.lists(pages, max_size=2),
)
others = st.sampled_from(["secmodel", "iommu", "migration_features", "power_management", "cache"])


def document(processor, found, more):
    topology = element("topology", children=[element("cells", children=found, num=str(len(found)))])
    host = element("host", children=[*processor, *map(element, more), topology])
    return ET.tostring(element("capabilities", children=[host]), encoding="unicode")


documents = st.builds(
    document,
    st.lists(cpu_elements, max_size=1),
    st.lists(cells, max_size=4),
    st.lists(others, max_size=2),
)
choices = st.fixed_dictionaries(
    {
        "report_numa": st.sampled_from(["off", "nested"]),
        "memory": st.builds(
            MemoryPolicy,
            st.sampled_from(["off", "pages", "memory"]),
            st.lists(
                st.builds(ReservedPages, st.integers(0, 4), st.just(2048), st.integers(0, 2**34)),
                max_size=2,
            ).map(tuple),
        ),
        "policy": st.builds(
            InventoryPolicy,
            reserved_cpus=st.integers(0, 40),
            reserved_memory_mb=st.sampled_from([0, 512, 2**31, 2**40]),
            reserved_disk_mb=st.sampled_from([0, 5000, 2**50]),
        ),
    }
)
looks = st.builds(
    reading,
    documents,
    memory_mib=st.sampled_from([0, 1, 8192, 2**42]),
    disk_bytes=st.sampled_from([None, 0, 2**40, 2**62]),
)
quickly = settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def check(tree: ProviderTree) -> None:
    valid(tree)
    known = CPU_TRAITS | ARCH_TRAITS | {"HW_NUMA_ROOT"}
    assert all(provider.traits <= known for provider in tree.freeze().walk())


@quickly
@given(looks, looks, choices, choices)
def test_a_host_that_becomes_any_other_still_is(look, later, choice, other):
    tree = written(new_tree(), look, **choice)
    check(tree)
    try:
        changed = written(tree, later, **other)
    except ReshapeNeeded:
        changed = written(tree, later, {}, **other)
    check(changed)
    assert written(changed, later, **other).freeze() == changed.freeze()
    if other["report_numa"] == "off":
        assert not re.search(r"_numa\d", " ".join(p.name for p in changed.freeze().walk()))


@settings(max_examples=50, deadline=None)
@given(st.text(max_size=40))
def test_what_is_no_document_at_all_is_refused_in_words(text):
    with pytest.raises(ValueError, match=r"^a(n empty)? document |^a <"):
        parse_document(text, "capabilities")
