from xml.etree.ElementTree import fromstring

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.libvirt.documents import parse_cpus
from drivers.libvirt.facts import topology
from drivers.libvirt.facts.topology import numa_cells
from tests.unit.libvirt.fake_binding import DATA

REAL = fromstring((DATA / "capabilities-x86_64.xml").read_text())


def cells(*cpus: str) -> str:
    return (
        "<capabilities><host><topology><cells><cell id='0'><cpus>"
        + "".join(cpus)
        + "</cpus></cell></cells></topology></host></capabilities>"
    )


def test_a_real_document_tells_model_maker_and_features():
    found = topology.host_cpu(REAL)
    assert (found.arch, found.vendor) == ("x86_64", "Intel")
    assert found.model is not None and found.model in found.document
    assert "avx512f" in found.features


@pytest.mark.parametrize("text", ["<capabilities/>", "<a><host/></a>"])
def test_a_document_without_a_cpu_tells_nothing(text):
    assert topology.host_cpu(fromstring(text)) == topology.HostCpu()
    assert numa_cells(fromstring(text)) == ()
    assert not topology.cores(()) and topology.hyperthreading(()) is None


def test_features_that_are_switched_off_do_not_count():
    document = "<cpu><feature name='a' policy='disable'/><feature name='b'/><feature/></cpu>"
    assert topology.features(fromstring(document)) == {"b"}


@pytest.mark.parametrize(
    ("siblings", "expected"),
    [(("0-1", "0-1"), True), (("0", "1"), False), (("0,4",), True), (("", ""), None)],
)
def test_hyperthreading_is_read_from_siblings(siblings, expected):
    document = cells(*(f"<cpu id='{n}' siblings='{s}'/>" for n, s in enumerate(siblings)))
    assert topology.hyperthreading(numa_cells(fromstring(document))) is expected


def test_cores_are_read_from_siblings():
    document = cells("<cpu id='0' siblings='0,4'/>", "<cpu id='1' siblings='1'/>")
    assert topology.cores(numa_cells(fromstring(document))) == {frozenset({0, 4}), frozenset({1})}


@given(st.text(max_size=20))
def test_any_text_is_numbers_or_none(text):
    assert all(isinstance(number, int) for number in parse_cpus(text))
