"""virt_type says what this host's guests are; a host may not be able to run them."""

from xml.etree import ElementTree as ET

import pytest

from drivers.libvirt.facts.architecture import virt_type_note


def capabilities(*guests: tuple[str, str]) -> ET.Element:
    """A host of x86_64 with guests of ``(arch, type)``."""
    archs = "".join(
        f"<guest><arch name='{arch}'><domain type='{kind}'/></arch></guest>"
        for arch, kind in guests
    )
    cpu = "<host><cpu><arch>x86_64</arch></cpu></host>"
    return ET.fromstring(f"<capabilities>{cpu}{archs}</capabilities>")


def test_a_host_without_kvm_is_told_what_to_do_about_it():
    note = virt_type_note(capabilities(("x86_64", "qemu"), ("aarch64", "kvm")), "kvm")["virt_type"]
    assert "virt_type = kvm" in note
    assert "/dev/kvm" in note
    assert "set virt_type = qemu" in note


@pytest.mark.parametrize(
    ("host", "virt_type"),
    [
        ((("x86_64", "qemu"), ("x86_64", "kvm")), "kvm"),
        ((("x86_64", "qemu"), ("x86_64", "kvm")), "qemu"),
        ((("x86_64", "test"),), "kvm"),
        ((("x86_64", "exe"),), "lxc"),
        ((), "kvm"),
    ],
)
def test_nothing_is_said_where_it_can_or_where_it_is_not_known(host, virt_type):
    assert virt_type_note(capabilities(*host), virt_type) == {}
