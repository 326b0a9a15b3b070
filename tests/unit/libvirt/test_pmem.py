import pytest

from drivers.libvirt.facts.pmem import missing_namespaces, pmem_inventory, pmem_labels

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
    found = pmem_inventory(LABELS, frozenset({"ns1", "ns9"}))
    assert {name: r["total"] for name, r in found.items()} == {"CUSTOM_PMEM_NAMESPACE_128G": 1}
    words = missing_namespaces(LABELS, frozenset({"ns1", "ns9"}))
    assert words == {
        "[libvirt] pmem_namespaces": "this host has no devdax namespace ns0, ns2 (it has: ns1, ns9)"
    }
    assert missing_namespaces(LABELS, frozenset({"ns0", "ns1", "ns2"})) == {}
