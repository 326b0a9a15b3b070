"""Which names of children no other host has."""

from __future__ import annotations

import pytest

from driverkit.judges.shape import is_own


@pytest.mark.parametrize(
    "name",
    [
        "host1_0000:84:00.0",
        "gpu-of-HOST1",
        "nvme-S4EWNX0M123456",
        "52:54:00:12:34:56",
        "eui.0025385b61b0a2d1",
        "5cb3a1ba-7e31-4f6b-a6c1-9d4c5f6e7a01",
        "5cb3a1ba7e314f6ba6c19d4c5f6e7a01",
    ],
)
def test_a_name_with_its_host_or_something_unique_in_it_is_its_own(name: str) -> None:
    assert is_own(name, "host1", "6a2d1c34-58b1-4a6d-9a5c-0f6a4d8f1e02")


@pytest.mark.parametrize(
    "name",
    ["gpu0", "0000:84:00.0", "pci_0000_84_00_0", "accelerator12", "mlx5_core.sf.4", "numa-0"],
)
def test_a_name_that_the_next_host_gives_too_is_not(name: str) -> None:
    assert not is_own(name, "host1", "6a2d1c34-58b1-4a6d-9a5c-0f6a4d8f1e02")
