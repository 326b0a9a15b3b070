from xml.etree.ElementTree import Element, fromstring

import pytest

from drivers.libvirt.facts.cpu_features import CpuFeatures, GuestCpuFeatures
from drivers.libvirt.facts.topology import HostCpu

X86 = HostCpu("x86_64", "Haswell", "Intel", frozenset({"vmx"}), "<cpu>the host's</cpu>")
ARM = HostCpu("aarch64", None, "ARM", frozenset({"asimd", "sve"}), "<cpu/>")


def listing(*names: str) -> Element:
    listed = "".join(f"<feature policy='require' name='{n}'/>" for n in names)
    return fromstring(f"<cpu>{listed}</cpu>")


@pytest.mark.parametrize(
    ("virt_type", "mode", "arch", "expected"),
    [
        ("kvm", None, "x86_64", "host-model"),
        ("qemu", None, "ppc64le", "host-model"),
        ("kvm", None, "aarch64", "host-passthrough"),
        ("kvm", "none", "x86_64", "none"),
        ("kvm", "custom", "x86_64", "custom"),
        ("lxc", None, "x86_64", None),
        ("lxc", "none", "x86_64", None),
        ("parallels", "host-passthrough", "x86_64", "host-passthrough"),
    ],
)
def test_the_mode_that_is_not_configured_depends_on_the_virt_type(virt_type, mode, arch, expected):
    assert CpuFeatures(virt_type, mode).effective_mode(arch) == expected


@pytest.mark.parametrize("mode", ["host-model", "host-passthrough"])
def test_host_modes_have_the_hosts_features_model_and_beyond(mode):
    choice = CpuFeatures("kvm", mode)
    asked = choice.cpus_to_expand(X86)
    assert [*asked.values()] == ["<cpu>the host's</cpu>"]
    found = choice.guest_features(X86, [listing("avx", "avx2")])
    assert found == GuestCpuFeatures(frozenset({"avx", "avx2", "vmx"}), complete=True)


def test_without_an_answer_only_the_listed_features_are_certain():
    choice = CpuFeatures("kvm")
    assert choice.guest_features(X86, [None]) == GuestCpuFeatures(
        frozenset({"vmx"}), complete=False
    )


def test_a_host_whose_features_are_all_listed_needs_no_question():
    choice = CpuFeatures("kvm")
    assert choice.cpus_to_expand(ARM) == {}
    assert choice.guest_features(ARM, ()) == GuestCpuFeatures(ARM.features, complete=True)


def test_custom_models_count_together_in_libvirts_spelling():
    choice = CpuFeatures("kvm", "custom", ("haswell-NOTSX", "Unlisted"))
    asked = choice.cpus_to_expand(X86, ("486", "Haswell-noTSX"))
    assert [*asked.values()] == [
        "<cpu><arch>x86_64</arch><model>Haswell-noTSX</model></cpu>",
        "<cpu><arch>x86_64</arch><model>Unlisted</model></cpu>",
    ]
    found = choice.guest_features(X86, [listing("avx"), listing("aes")])
    assert found == GuestCpuFeatures(frozenset({"avx", "aes"}), complete=True)
    partly = choice.guest_features(X86, [listing("avx"), None])
    assert partly == GuestCpuFeatures(frozenset({"avx"}), complete=False)


@pytest.mark.parametrize(
    ("arch", "model"),
    [("x86_64", "qemu64"), ("i686", "qemu32"), ("ppc64le", "POWER8"), ("aarch64", "max")],
)
def test_without_a_mode_guests_get_the_default_model(arch, model):
    (document,) = CpuFeatures("qemu", "none").cpus_to_expand(HostCpu(arch)).values()
    assert f"<model>{model}</model>" in document


def test_a_models_name_can_not_break_the_document():
    (document,) = CpuFeatures("kvm", "custom", ("<a & b>",)).cpus_to_expand(X86).values()
    assert "&lt;a &amp; b&gt;" in document


def test_extra_flags_add_and_take_away():
    choice = CpuFeatures("kvm", None, (), ("+PDPE1GB", "-VMX", " pcid "))
    found = choice.guest_features(X86, [listing("avx")])
    assert found == GuestCpuFeatures(frozenset({"avx", "pdpe1gb", "pcid"}), complete=True)


@pytest.mark.parametrize(
    ("cpu", "choice"),
    [(X86, CpuFeatures("lxc")), (HostCpu(), CpuFeatures("kvm", "custom", ("x",)))],
)
def test_nothing_is_said_of_hosts_and_virt_types_without_models(cpu, choice):
    assert choice.cpus_to_expand(cpu) == {}
    assert choice.guest_features(cpu, ()) is None
