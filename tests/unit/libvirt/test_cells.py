from __future__ import annotations

import pytest

from drivers.libvirt.documents import amount_kib, parse_document, whole_number
from drivers.libvirt.facts.topology import numa_cells
from tests.unit.libvirt.hosts import capabilities, cell


def found(*cells, host=""):
    return numa_cells(parse_document(capabilities(*cells, host=host)))


def test_cells_have_cpus_memory_and_hugepages_but_no_ordinary_pages():
    one, two = found(cell(1, [4], pages={2048: 3, 1048576: 1}), cell(0, [0, 1], mib=7))
    assert (one.number, one.cpus, one.memory_kib, one.pages) == (0, {0, 1}, 7 * 1024, {})
    assert (two.pages, two.huge_kib) == ({2048: 3, 1048576: 1}, 3 * 2048 + 1048576)


def test_large_ordinary_pages_are_told_by_the_smallest_size():
    page = "<pages unit='KiB' size='{}'>{}</pages>"
    arm = "<cell id='0'>" + page.format(64, 1000) + page.format(2048, 4) + "</cell>"
    assert found(arm)[0].pages == {2048: 4}
    small = "<cell id='0'>" + page.format(4, 1000) + page.format(64, 4) + "</cell>"
    assert found(small)[0].pages == {64: 4}
    only = "<cell id='0'>" + page.format(2048, 4) + "</cell>"
    assert found(only)[0].pages == {2048: 4}, "no machine's ordinary pages are that large"


def test_old_documents_tell_no_units_and_memory_by_pages():
    old = "<cell id='0'><pages size='4'>2500</pages><pages size='2048'>100</pages></cell>"
    assert found(old)[0].pages == {2048: 100}
    assert found(old)[0].memory_kib == 2500 * 4 + 100 * 2048, "as far as pages tell it"
    assert found("<cell id='0'/>")[0].memory_kib == 0


@pytest.mark.parametrize("odd", ["<cell/>", "<cell id='x'/>", "<cell id='-1'/>", "<cell id=''/>"])
def test_a_cell_without_a_number_is_none(odd):
    assert [one.number for one in found(odd, cell(3, [0]))] == [3]


def test_no_cpu_is_in_two_cells_and_no_cell_there_twice():
    cells = found(cell(0, [0, 1]), cell(1, [1, 2]), cell(0, [5]))
    assert [one.cpus for one in cells] == [{0, 1}, {2}]


def test_cpus_that_make_no_sense_are_left_out():
    odd = "<cell id='0'><cpus><cpu id='x'/><cpu/><cpu id='5'/><cpu id='99999999'/></cpus></cell>"
    assert found(odd)[0].cpus == {5}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<m unit='KiB'>2</m>", 2),
        ("<m>2</m>", 2),
        ("<m unit='MiB'>2</m>", 2048),
        ("<m unit='G'>1</m>", 1048576),
        ("<m unit='b'>4096</m>", 4),
        ("<m unit='bytes'>4096</m>", 4),
        ("<m unit='kB'>1024</m>", 0),
        ("<m unit='KB'>1024</m>", 1000),
        ("<m unit='furlong'>2</m>", 0),
        ("<m>-2</m>", 0),
        ("<m>two</m>", 0),
        ("<m/>", 0),
    ],
)
def test_amounts_are_read_in_their_unit(text, expected):
    assert amount_kib(parse_document(text)) == expected


@pytest.mark.parametrize("text", [None, "", "x", "-1", "1.5", "²", "9" * 19])
def test_what_is_no_number_is_none(text):
    assert whole_number(text) is None
