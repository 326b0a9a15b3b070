"""A driver on a libvirt that answers from memory."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from drivers.libvirt.driver import LibvirtDriver
from tests.hosts import FakeHost
from tests.unit.libvirt.fake_binding import FakeLibvirt


@pytest.fixture
def binding() -> FakeLibvirt:
    return FakeLibvirt()


@pytest.fixture
def fake_host(binding: FakeLibvirt, tmp_path: Path) -> Iterator[FakeHost]:
    host = FakeHost(tmp_path, binding)
    yield host
    host.close()


@pytest.fixture
def make(fake_host: FakeHost) -> Callable[..., LibvirtDriver]:
    """A driver on that libvirt, with these options."""
    return fake_host.driver
