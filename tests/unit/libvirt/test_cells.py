from xml.etree.ElementTree import fromstring

import pytest

from drivers.libvirt.documents import amount_bytes, whole_number
from drivers.libvirt.facts.topology import numa_cells
from tests.unit.libvirt.hosts import capabilities, cell


def found(*cells, host=""):
    return numa_cells(fromstring(capabilities(*cells, host=host)))


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


def whole(number="0", memory="<memory unit='KiB'>8192</memory>", pages="", cpus=""):
    return f"<cell id='{number}'>{memory}{pages}<cpus>{cpus}</cpus></cell>"


PAGES = "<pages unit='{}' size='{}'>{}</pages>".format
CONTRADICTIONS = {
    "a NUMA cell has the id None": ["<cell/>"],
    "a NUMA cell has the id ''": [whole("")],
    "a NUMA cell has the id 'x'": [whole("x")],
    "a NUMA cell has the id '-1'": [whole(), whole("-1")],
    "NUMA cell 3 is listed twice": [whole(3), whole(1), whole(3)],
    "CPU 1 is in NUMA cells 0 and 1": [cell(0, [0, 1]), cell(1, [1, 2])],
    "NUMA cell 0: a CPU is listed twice": [cell(0, [0, 1, 1])],
    "NUMA cell 0: the id of a <cpu>: 'x'": [whole(cpus="<cpu id='0'/><cpu id='x'/>")],
    "NUMA cell 0: the id of a <cpu> = '' names no": [whole(cpus="<cpu/>")],
    "NUMA cell 0: the id of a <cpu>: CPU 99999999": [whole(cpus="<cpu id='99999999'/>")],
    "NUMA cell 2: siblings: 'none'": [whole(2, cpus="<cpu id='0' siblings='none'/>")],
    "NUMA cell 0: <memory> is 'much' in KiB": [whole(memory="<memory>much</memory>")],
    "NUMA cell 0: <pages> is '2048' in pages": [whole(pages=PAGES("pages", 2048, 1))],
    "NUMA cell 0: <pages> is 'big' in KiB": [whole(pages=PAGES("KiB", "big", 1))],
    "NUMA cell 0: <pages> of 0 KiB": [whole(pages=PAGES("KiB", 0, 1))],
    "NUMA cell 0: the number of <pages> of 2048 KiB is 'few'": [
        whole(pages=PAGES("KiB", 2048, "few"))
    ],
    "NUMA cell 0: <pages> of 2048 KiB are listed twice": [
        whole(pages=PAGES("KiB", 2048, 1) + PAGES("MiB", 2, 2))
    ],
    "NUMA cell 0: 10240 KiB of hugepages in 8192 KiB of memory": [
        whole(pages=PAGES("KiB", 2048, 5))
    ],
}


@pytest.mark.parametrize("problem", CONTRADICTIONS)
def test_cells_that_can_not_be_right_are_an_error_that_names_the_part(problem):
    with pytest.raises(ValueError) as raised:
        found(*CONTRADICTIONS[problem])
    assert str(raised.value).startswith(problem)


def test_a_cell_or_cpu_that_is_missing_is_noticed():
    text = capabilities(whole(0), whole(1)).replace(whole(1), "")
    with pytest.raises(ValueError, match="<cells num='2'> lists 1"):
        numa_cells(fromstring(text))
    with pytest.raises(ValueError, match="NUMA cell 0: <cpus num='3'> lists 2"):
        found(cell(0, [0, 1]).replace("<cpus>", "<cpus num='3'>"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<m unit='KiB'>2</m>", 2048),
        ("<m>2</m>", 2048),
        ("<m unit='MiB'>2</m>", 2 * 1024**2),
        ("<m unit='G'>1</m>", 1024**3),
        ("<m unit='b'>4096</m>", 4096),
        ("<m unit='bytes'>4096</m>", 4096),
        ("<m unit='KB'>1024</m>", 1024_000),
    ],
)
def test_amounts_are_read_in_their_unit(text, expected):
    assert amount_bytes(fromstring(text)) == expected
    assert amount_bytes(fromstring("<m>7</m>"), unit="bytes") == 7
    assert amount_bytes(None) == 0


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("<m unit='kB'>1024</m>", "<m> is '1024' in kB"),
        ("<m unit='furlong'>2</m>", "<m> is '2' in furlong"),
        ("<m>-2</m>", "<m> is '-2' in KiB"),
        ("<m unit='B'>two</m>", "<m> is 'two' in B"),
        ("<m/>", "<m> is '' in KiB"),
    ],
)
def test_an_amount_that_can_not_be_read_is_an_error(text, problem):
    with pytest.raises(ValueError) as raised:
        amount_bytes(fromstring(text))
    assert str(raised.value) == problem


@pytest.mark.parametrize("text", [None, "", "x", "-1", "1.5", "²", "9" * 20])
def test_what_is_no_number_is_none(text):
    assert whole_number(text) is None
