"""[pci] device_spec: whom an entry matches, and what is refused."""

import json

import pytest

from drivers.libvirt.devices.device_spec import KEYS, device_specs
from drivers.libvirt.devices.pci_devices import PciDevice

PF = PciDevice("0000:81:00.0", "8086", "1572")
VF = PciDevice("0000:81:0a.3", "8086", "154c", physical=PF.address)
OTHER = PciDevice("10000:02:1f.7", "144d", "a80a")
NETWORKS = {"eth0": PF.address, "vf3": VF.address}


def matched(**entry):
    (spec,) = device_specs([json.dumps(entry)])
    return [one for one in (PF, VF, OTHER) if spec.matches(one, NETWORKS)]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ({}, [PF, VF, OTHER]),
        ({"vendor_id": "8086"}, [PF, VF]),
        ({"vendor_id": "*", "product_id": "0xA80A"}, [OTHER]),
        ({"vendor_id": "8086", "product_id": "154c"}, [VF]),
        ({"address": "0000:81:00.0"}, [PF, VF]),
        ({"address": "0000:81:00.0", "product_id": "1572"}, [PF]),
        ({"address": "0000:81:00.*"}, [PF]),
        ({"address": "0:81:0.0"}, [PF, VF]),
        ({"address": "*:81:*.*"}, [PF, VF]),
        ({"address": ":81:"}, [PF, VF]),
        ({"address": "81:0A.3"}, [VF]),
        ({"address": "0a."}, [VF]),
        ({"address": ".3"}, [VF]),
        ({"address": {"bus": "8[0-3]", "slot": "0[a-f]"}}, [VF]),
        ({"address": {"domain": "0000$", "function": "[0-2]"}}, [PF]),
        ({"address": {"domain": "10000"}}, [OTHER]),
        ({"devname": "eth0"}, [PF, VF]),
        ({"devname": "vf3"}, [VF]),
        ({"devname": "gone0"}, []),
    ],
)
def test_whom_an_entry_matches(entry, expected):
    assert matched(**entry) == expected


def test_one_value_may_be_a_list_and_there_may_be_several():
    specs = device_specs(['[{"vendor_id": "1"}, {"vendor_id": "2"}]', '{"vendor_id": "3"}'])
    assert [spec.vendor for spec in specs] == ["0001", "0002", "0003"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu-a100", "CUSTOM_GPU_A100"),
        ("custom_gpu", "CUSTOM_GPU"),
        ("CUSTOM_GPU", "CUSTOM_GPU"),
        ("PGPU", "PGPU"),
        ("sriov_net_vf", "SRIOV_NET_VF"),
        ("CUSTOM_a b", "CUSTOM_CUSTOM_A_B"),
    ],
)
def test_a_class_gets_a_name_that_placement_takes(text, expected):
    (spec,) = device_specs([json.dumps({"resource_class": text})])
    assert spec.resource_class == expected


def test_traits_keep_standard_names_and_make_custom_ones_of_the_rest():
    told = {"traits": "HW_GPU_API_VULKAN, blue,custom_x ,,", "physical_network": "net-1"}
    (spec,) = device_specs([json.dumps({**told, "one_time_use": "true", "live_migratable": True})])
    assert spec.traits == {
        "HW_GPU_API_VULKAN",
        "CUSTOM_BLUE",
        "CUSTOM_X",
        "CUSTOM_PHYSNET_NET_1",
        "HW_PCI_ONE_TIME_USE",
        "HW_PCI_LIVE_MIGRATABLE",
    }
    assert spec.one_time_use and spec.physical_network == "net-1"


def test_all_keys_of_the_reference_are_taken():
    entry = dict.fromkeys(KEYS, None) | {"managed": "no", "trusted": "true"}
    entry |= dict.fromkeys(("one_time_use", "remote_managed", "live_migratable"), False)
    assert device_specs([json.dumps(entry)])[0].physical_network is None


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{'vendor_id': 1}", "is not JSON"),
        ('"8086"', "is not an object"),
        ('[{"vendor_id": "8086"}, 3]', "3 is not an object"),
        ('{"adress": "0000:81:00.0"}', "unknown key 'adress'"),
        ('{"vendor_id": 8086}', "vendor_id has to be text, not 8086"),
        ('{"vendor_id": "10000"}', "not a hexadecimal number up to ffff"),
        ('{"product_id": "xyz"}', "product_id = 'xyz'"),
        ('{"address": "a:b:c:d.e"}', "is not like 0000:81:00.0"),
        ('{"address": "0000:81:20.0"}', "slot of the address = '20'"),
        ('{"address": "0000:81:00.8"}', "function of the address = '8'"),
        ('{"address": "0000:8*:00.0"}', "bus of the address = '8*'"),
        ('{"address": 5}', "text or an object, not 5"),
        ('{"address": {"buss": ".*"}}', "unknown part 'buss'"),
        ('{"address": {"bus": "["}}', "not a regular expression"),
        ('{"address": {"bus": 81}}', "bus of the address has to be text"),
        ('{"address": "0000:81:00.0", "devname": "eth0"}', "exclude each other"),
        ('{"managed": "perhaps"}', 'true or false, not "perhaps"'),
        ('{"resource_class": "%s"}' % ("x" * 250), "longer than the 255"),
        ('{"resource_class": "--"}', "not a name that Placement accepts"),
        ('{"traits": "CUSTOM_"}', "not a name that Placement accepts"),
    ],
)
def test_what_is_wrong_is_named_with_the_option_and_the_value(text, words):
    with pytest.raises(ValueError, match=r"\[pci\] device_spec = ") as err:
        device_specs([text])
    assert words in str(err.value)
