import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.inventory import (
    DISK_GB,
    MEMORY_MB,
    PCPU,
    VCPU,
    InventoryPolicy,
    Ratio,
    cpu_list,
    cpu_set,
    over_reserved,
    root_inventory,
)
from reportclient.model import MAX_INT, Inventory

cpus = st.frozensets(st.integers(0, 200), min_size=1, max_size=40)
ratios = st.one_of(st.none(), st.floats(0, 1000, allow_nan=False))
policies = st.builds(
    InventoryPolicy,
    reserved_cpus=st.integers(0, 300),
    reserved_memory_mb=st.integers(0, 2**40),
    reserved_disk_mb=st.integers(0, 2**40),
    ratios=st.fixed_dictionaries(
        {name: st.builds(Ratio, ratios, st.floats(0.1, 100)) for name in (VCPU, MEMORY_MB, DISK_GB)}
    ),
)
amounts = st.dictionaries(st.sampled_from([VCPU, PCPU, MEMORY_MB, DISK_GB]), st.integers(0, 2**40))
known = st.dictionaries(
    st.sampled_from([VCPU, PCPU, MEMORY_MB, DISK_GB, "CUSTOM_X"]),
    st.fixed_dictionaries({"total": st.integers(1, 9)}, optional={"allocation_ratio": ratios}),
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("4-12,^8,15", {4, 5, 6, 7, 9, 10, 11, 12, 15}),
        ("0", {0}),
        (" 1 , 3 - 4 ,", {1, 3, 4}),
        ("^2,0-3", {0, 1, 3}),
        ("0-7,^2-5", {0, 1, 6, 7}),
    ],
)
def test_cpu_sets_are_read_as_the_reference_does(text, expected):
    assert cpu_set(text, "option") == expected


@pytest.mark.parametrize("text", ["a", "1-", "-1", "3-1", "1-2-3", "^", "1;2", "0x1", "²", "70000"])
def test_a_bad_cpu_set_names_the_option_and_the_part(text):
    with pytest.raises(ValueError, match=r"\[compute\] cpu_shared_set.*") as caught:
        cpu_set(f"0,{text}", "[compute] cpu_shared_set")
    assert text.lstrip("^") in str(caught.value)


@pytest.mark.parametrize("text", ["", ",", "^1", "1,^1"])
def test_a_cpu_set_without_a_cpu_is_an_error(text):
    with pytest.raises(ValueError, match="names no CPU"):
        cpu_set(text, "option")


def test_an_absurd_range_is_refused_before_it_is_built():
    with pytest.raises(ValueError, match="above"):
        cpu_set("0-99999999999999", "option")


@given(cpus)
def test_written_cpu_sets_read_back(numbers):
    assert cpu_set(cpu_list(numbers), "option") == numbers


@given(cpus, cpus)
def test_exclusions_win_wherever_they_stand(named, removed):
    parts = [cpu_list(named), *(f"^{n}" for n in removed)]
    for text in (",".join(parts), ",".join(reversed(parts))):
        if named <= removed:
            with pytest.raises(ValueError):
                cpu_set(text, "option")
        else:
            assert cpu_set(text, "option") == named - removed


@given(st.text(alphabet="0123456789,-^ x", max_size=12))
def test_any_text_is_a_cpu_set_or_a_value_error_that_names_the_option(text):
    try:
        assert cpu_set(text, "the-option")
    except ValueError as err:
        assert "the-option" in str(err)


@pytest.mark.parametrize(
    ("configured", "current", "expected"),
    [
        (2.0, {"allocation_ratio": 3.0}, 2.0),
        (2.0, None, 2.0),
        (None, {"allocation_ratio": 3.0}, 3.0),
        (0.0, {"allocation_ratio": 3.0}, 3.0),
        (None, None, 4.0),
        (None, {"total": 1}, 4.0),
    ],
)
def test_ratio_is_configured_then_known_then_initial(configured, current, expected):
    assert Ratio(configured, 4.0).effective(current) == expected


def test_a_new_host_by_default():
    found = root_inventory(
        {VCPU: 8, PCPU: 0, MEMORY_MB: 4096, DISK_GB: 100},
        InventoryPolicy(reserved_memory_mb=512, reserved_disk_mb=1025),
        {},
    )
    units = {"min_unit": 1, "step_size": 1}
    assert found == {
        VCPU: {"total": 8, "reserved": 0, "max_unit": 8, "allocation_ratio": 4.0, **units},
        MEMORY_MB: {
            "total": 4096,
            "reserved": 512,
            "max_unit": 4096,
            "allocation_ratio": 1.0,
            **units,
        },
        DISK_GB: {"total": 100, "reserved": 2, "max_unit": 100, "allocation_ratio": 1.0, **units},
    }


def test_dedicated_cpus_are_never_overcommitted_or_reserved():
    policy = InventoryPolicy(dedicated_cpus=frozenset({1, 2}))
    known = {PCPU: {"total": 2, "allocation_ratio": 9.0, "reserved": 1}}
    record = root_inventory({PCPU: 2}, policy, known)[PCPU]
    assert (record["allocation_ratio"], record["reserved"]) == (1.0, 0)


@given(amounts, policies, known)
def test_any_host_gives_inventory_that_placement_takes(host, policy, current):
    found = root_inventory(host, policy, current)
    assert set(found) == {name for name, total in host.items() if total > 0}
    for name, record in found.items():
        assert Inventory.from_dict(record).problem() is None
        assert record["total"] == record["max_unit"] == min(host[name], MAX_INT)


@given(amounts, policies, known)
def test_what_was_reported_changes_nothing_when_reported_again(host, policy, current):
    once = root_inventory(host, policy, current)
    assert root_inventory(host, policy, once) == once


@given(amounts, policies)
def test_exactly_the_classes_that_had_to_be_cut_are_named(host, policy):
    found = root_inventory(host, policy, {})
    cut = {name for name, r in found.items() if policy.reserved(name) > host[name]}
    assert set(over_reserved(host, policy)) == cut
