import re
from pathlib import Path
from xml.etree.ElementTree import Element, fromstring

import os_traits
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.libvirt.driver import CAPABILITIES, capabilities_from_conf
from drivers.libvirt.facts import architecture, cpu_features
from drivers.libvirt.facts.cpu_features import GuestCpuFeatures
from drivers.libvirt.facts.cpus_and_memory import HYPERTHREADING
from drivers.libvirt.facts.topology import HostCpu
from tests.hosts import FakeHost, context
from tests.unit.libvirt.hosts import ARCH_TRAITS, CPU_TRAITS

INTEL = HostCpu("x86_64", "Haswell", "Intel")
AMD = HostCpu("x86_64", "EPYC", "AMD")
CPU_MAP = Path("/usr/share/libvirt/cpu_map/x86_features.xml")


def traits(cpu: HostCpu, *names: str, complete: bool = True) -> dict[str, bool]:
    return cpu_features.cpu_traits(cpu, GuestCpuFeatures(frozenset(names), complete))


def test_every_trait_of_a_processor_is_known():
    """A trait that os-traits gains is noticed here, of any architecture.  Left out: what is
    no CPU feature bit (memory encryption, ASF) and belongs to others."""
    known = set(os_traits.get_traits("HW_CPU_"))
    others = {HYPERTHREADING, "HW_CPU_X86_ASF", "HW_CPU_X86_INTEL_TDX", "HW_CPU_AMD_SEV"}
    others |= {name for name in known if name.startswith("HW_CPU_X86_AMD_SEV")}
    assert CPU_TRAITS == known - others


def test_all_architectures_of_the_standard_are_known():
    guests = fromstring("<capabilities><guest><arch name='s390x'/></guest></capabilities>")
    assert architecture.arch_traits(INTEL, guests).keys() == ARCH_TRAITS


@pytest.mark.skipif(not CPU_MAP.exists(), reason="libvirt's CPU map is not installed")
def test_every_x86_trait_has_a_bit_that_libvirt_calls_so():
    bits = set(re.findall(r"feature name='([^']+)'", CPU_MAP.read_text()))
    strange = {name for name, alike in cpu_features.X86_FEATURES.items() if bits.isdisjoint(alike)}
    assert strange == set()


def test_features_decide_and_both_names_of_virtualisation_are_set():
    found = traits(INTEL, "vmx", "avx2", "pni", "unheard-of")
    there = {name for name, has in found.items() if has}
    assert there == {"HW_CPU_X86_VMX", "HW_CPU_X86_INTEL_VMX", "HW_CPU_X86_AVX2", "HW_CPU_X86_SSE3"}
    assert found["HW_CPU_X86_SVM"] is False


def test_traits_named_for_the_other_maker_are_not_claimed():
    assert traits(AMD, "pcid", "svm")["HW_CPU_X86_INTEL_PCID"] is False
    assert traits(AMD, "svm")["HW_CPU_X86_AMD_SVM"] is True
    assert traits(INTEL, "ibpb")["HW_CPU_X86_AMD_IBPB"] is False
    assert traits(INTEL, "pcid")["HW_CPU_X86_INTEL_PCID"] is True


def test_what_may_only_be_missing_from_the_answer_makes_no_trait_go():
    assert traits(INTEL, "avx", complete=False) == {"HW_CPU_X86_AVX": True}


def test_arm_and_power():
    assert traits(HostCpu("aarch64"), "sve")["HW_CPU_AARCH64_SVE"] is True
    power = cpu_features.cpu_traits(HostCpu("ppc64le", "POWER9"), None)
    assert power == {"HW_CPU_PPC64LE_POWER8": False, "HW_CPU_PPC64LE_POWER9": True}


def test_an_unknown_cpu_has_no_traits():
    assert cpu_features.cpu_traits(HostCpu(), None) == {}
    assert architecture.arch_traits(HostCpu(), Element("nothing")) == {}


def test_host_and_guest_architectures():
    document = "<c><guest><arch name='i686'/></guest><guest><arch name='aarch64'/></guest></c>"
    found = architecture.arch_traits(HostCpu("x86_64"), fromstring(document))
    assert {name for name, has in found.items() if has} == {
        "HW_ARCH_X86_64",
        "COMPUTE_ARCH_AARCH64",
    }
    assert found["COMPUTE_ARCH_X86_64"] is False


some = st.none() | st.sampled_from(["x86_64", "i686", "aarch64", "ppc64le", "Intel", "AMD", "x"])


@given(
    st.builds(HostCpu, some, some, some),
    st.none() | st.builds(GuestCpuFeatures, st.frozensets(st.text(max_size=9)), st.booleans()),
)
def test_no_host_makes_a_trait_that_is_not_owned(cpu, features):
    assert set(cpu_features.cpu_traits(cpu, features)) <= CPU_TRAITS


IMAGES = {"aki", "ami", "ari", "iso", "raw"}


@pytest.mark.parametrize(
    ("text", "accepted"),
    [
        ("", IMAGES | {"qcow2"}),
        ("[libvirt]\nimages_type = rbd\n", IMAGES | {"qcow2"}),
        ("force_raw_images = false\n[libvirt]\nimages_type = rbd\n", IMAGES),
        ("force_raw_images = false\n", IMAGES | {"qcow2"}),
        ("[libvirt]\nvirt_type = parallels\n", IMAGES | {"qcow2", "ploop"}),
    ],
)
def test_image_types_are_those_that_the_options_leave(tmp_path, text, accepted):
    conf = context(tmp_path, f"[DEFAULT]\n{text}").conf
    prefix = "supports_image_type_"
    images = {
        name.removeprefix(prefix): has
        for name, has in capabilities_from_conf(conf).items()
        if name.startswith(prefix)
    }
    assert images.keys() == IMAGES | {"qcow2", "ploop"}, "the others are removed"
    assert {name for name, has in images.items() if has} == accepted


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("[libvirt]\nvirt_type = kvm\n", []),
        (
            "[DEFAULT]\nvcpu_pin_set = 0-3\n[libvirt]\nhw_machine_type = x86_64=q35\n",
            ["[DEFAULT] vcpu_pin_set (set [compute] cpu_shared_set", "[libvirt] hw_machine_type ("],
        ),
    ],
)
def test_options_that_are_not_honoured_are_named_in_one_warning(tmp_path, caplog, text, named):
    host = FakeHost(tmp_path)
    host.driver(text).init_host("host")
    host.close()
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert len(warnings) == bool(named)
    assert all(words in warnings[0] for words in named)


def test_capabilities_have_the_names_of_nova_drivers():
    assert all(name.startswith(("supports_", "has_")) for name in CAPABILITIES)
    assert all(isinstance(value, bool) for value in CAPABILITIES.values())
