from __future__ import annotations

from xml.etree.ElementTree import Element

import pytest

from drivers.libvirt.facts.fact import ReportContext
from drivers.libvirt.facts.pmem import Pmem, pmem_labels

LABELS = pmem_labels(["128G:ns0|ns1", " small-ones : ns2 "])


def test_labels_become_classes():
    assert LABELS == {
        "CUSTOM_PMEM_NAMESPACE_128G": ("ns0", "ns1"),
        "CUSTOM_PMEM_NAMESPACE_SMALL_ONES": ("ns2",),
    }


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (["128G"], "'128G' is not LABEL:NAMESPACE"),
        ([":ns0"], "is not LABEL"),
        (["a:"], "is not LABEL"),
        (["a:ns0||ns1"], "is not LABEL"),
        (["a:ns0", "A:ns1"], "label 'A' is listed twice"),
        (["a:ns0", "b:ns1|ns0"], "namespace 'ns0' is listed twice"),
        (["a:ns0|ns0"], "namespace 'ns0' is listed twice"),
        (["a" * 250 + ":ns0"], "too long"),
    ],
)
def test_what_is_wrong_names_the_option_and_the_part(parts, words):
    with pytest.raises(ValueError, match=r"\[libvirt\] pmem_namespaces: .*" + words):
        pmem_labels(parts)


def test_namespaces_of_the_host_are_counted_and_missing_ones_named():
    context = ReportContext("n", Element("capabilities"))
    found = Pmem(LABELS).build_report(frozenset({"ns1", "ns9"}), context)
    totals = {name: record["total"] for name, record in found.inventory.items()}
    assert totals == {"CUSTOM_PMEM_NAMESPACE_128G": 1}
    assert found.notes == {
        "[libvirt] pmem_namespaces": "this host has no devdax namespace ns0, ns2 (it has: ns1, ns9)"
    }
    assert Pmem(LABELS).build_report(frozenset({"ns0", "ns1", "ns2"}), context).notes == {}
