import pytest
from hypothesis import given
from hypothesis import strategies as st

from drivers.inventory import InventoryPolicy, guest_cpus, split_cores

ALL = frozenset(range(8))
some = st.none() | st.frozensets(st.integers(0, 7), min_size=1)


def policy(shared=None, dedicated=None):
    return InventoryPolicy(
        shared_cpus=None if shared is None else frozenset(shared),
        dedicated_cpus=None if dedicated is None else frozenset(dedicated),
    )


@pytest.mark.parametrize(
    ("shared", "dedicated", "expected"),
    [
        (None, None, (8, 0)),
        ({0, 1}, None, (2, 0)),
        (None, {2, 3, 4}, (0, 3)),
        ({0, 1}, {2, 3, 4}, (2, 3)),
    ],
)
def test_sets_decide_what_is_shared_and_what_is_dedicated(shared, dedicated, expected):
    found = guest_cpus(ALL, ALL, policy(shared, dedicated))
    assert (len(found.shared), len(found.dedicated)) == expected


@pytest.mark.parametrize("which", ["shared", "dedicated"])
def test_a_set_with_cpus_that_are_not_there_names_them(which):
    with pytest.raises(ValueError, match=rf"cpu_{which}_set names CPU 8-9,.*it has 0-7"):
        guest_cpus(ALL, ALL, policy(**{which: {7, 8, 9}}))


def test_offline_cpus_of_a_set_are_left_out_unless_guests_wake_them():
    cpus = ALL, ALL - {1, 2, 3}, policy({0, 1}, {2, 3, 4})
    found = guest_cpus(*cpus)
    assert (found.shared, found.dedicated) == ({0}, {4})
    assert found.uncounted == {
        "[compute] cpu_shared_set": "CPU 1 is offline: not counted",
        "[compute] cpu_dedicated_set": "CPU 2-3 is offline: not counted",
    }
    found = guest_cpus(*cpus, wakes_dedicated=True)
    assert found.dedicated == {2, 3, 4}
    assert list(found.uncounted) == ["[compute] cpu_shared_set"]


def test_cores_with_a_dedicated_and_a_shared_thread_are_found():
    cores = [frozenset({n, n + 4}) for n in range(4)]
    assert split_cores(guest_cpus(ALL, ALL, policy({0, 1}, {2, 5, 6})), cores) == {5}
    assert split_cores(guest_cpus(ALL, ALL, policy({0, 4}, {1, 5})), cores) == set()


@given(some, some, st.frozensets(st.integers(0, 7)))
def test_shared_and_dedicated_are_disjoint_parts_of_what_is_online(shared, dedicated, online):
    if (shared or frozenset()) & (dedicated or frozenset()):
        return
    found = guest_cpus(ALL, online, policy(shared, dedicated))
    assert not found.shared & found.dedicated
    assert found.shared | found.dedicated <= online
