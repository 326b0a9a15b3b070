from xml.etree.ElementTree import fromstring

import pytest

from drivers.libvirt.facts.topology import Cell, guest_cells

CELLS = [Cell(n, frozenset(range(4 * n, 4 * n + 4)), 1, {}) for n in range(2)]
UUID = "0A0f3a7e-6f0b-4c11-9d0a-1c7e5bb1f001"


def home(*parts):
    document = f"<domain><uuid>{UUID}</uuid>{''.join(parts)}</domain>"
    return guest_cells([fromstring(document)], CELLS).get(UUID.lower())


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        (["<numatune><memory mode='strict' nodeset='1'/></numatune>"], 1),
        (["<numatune><memory nodeset='0'/></numatune>"], 0),
        (["<numatune><memory mode='strict' nodeset='0-1'/></numatune>"], None),
        (["<numatune><memory mode='preferred' nodeset='1'/></numatune>"], None),
        (["<numatune><memory nodeset='7'/></numatune>"], None),
        (["<cputune><vcpupin vcpu='0' cpuset='4'/><vcpupin vcpu='1' cpuset='6-7'/></cputune>"], 1),
        (["<cputune><vcpupin vcpu='0' cpuset='3-4'/></cputune>"], None),
        (["<vcpu cpuset='4-7'>2</vcpu>"], 1),
        (["<vcpu cpuset='0-7'>2</vcpu>"], None),
        (["<vcpu cpuset='0-3'>2</vcpu>", "<numatune><memory nodeset='1'/></numatune>"], 1),
        ([], None),
        (["<vcpu cpuset='rubbish'>2</vcpu>"], None),
    ],
)
def test_a_guest_is_at_home_where_it_is_bound_to_one_cell(parts, expected):
    assert home(*parts) == expected


@pytest.mark.parametrize("text", ["<domain/>", "<domain><uuid/></domain>"])
def test_a_document_that_says_nothing_is_nobodys_home(text):
    assert guest_cells([fromstring(text)], CELLS) == {}
