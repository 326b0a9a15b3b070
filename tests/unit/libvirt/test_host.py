import errno
import os
import sys
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest

from drivers.errors import DriverLoadFailed, DriverNotReady
from drivers.libvirt.connection.host import RECONNECT_PAUSE, Host, load_binding
from drivers.libvirt.connection.session import Deadlines
from drivers.libvirt.devices.devices import list_all_guests
from drivers.libvirt.facts import disk
from drivers.libvirt.facts.architecture import GuestType, domain_capabilities
from drivers.libvirt.facts.cpu_features import cpu_models, expanded_cpu
from drivers.libvirt.facts.cpus_and_memory import cpu_count, cpu_map, memory_kib
from drivers.libvirt.facts.disk import below, bytes_of_files
from drivers.libvirt.facts.fact import Sources
from drivers.libvirt.facts.pmem import namespace_names
from tests.hosts import FakeHost
from tests.unit.libvirt.fake_binding import FakeDomain, FakeLibvirt, FakeLibvirtError

DEADLINES = Deadlines(connect=60, call=60, keepalive_interval=5, keepalive_count=3)
IMPATIENT = Deadlines(connect=1, call=1, keepalive_interval=5, keepalive_count=3)


def size_of(host: Host, path: Path) -> int:
    return host.read_files(
        f"the file system of {path}", lambda root: disk.file_system_size(below(root, path))
    )


def cached_bytes(host: Host, cache: Path, beside: Path) -> int:
    return host.read_files(
        "images", lambda root: bytes_of_files(below(root, cache), below(root, beside))
    )


CPU = ("x", "<cpu/>")


@pytest.fixture
def clock():
    return SimpleNamespace(now=1000.0)


@pytest.fixture
def host(fake_host, clock):
    fake_host.deadlines, fake_host.clock = DEADLINES, lambda: clock.now
    return fake_host.connection()


@pytest.fixture
def impatient(fake_host, clock):
    """For calls that hang."""
    fake_host.deadlines, fake_host.clock = IMPATIENT, lambda: clock.now
    return fake_host.connection()


def test_all_calls_are_made_by_one_thread_over_one_connection(host, binding):
    host.hostname()
    memory_kib(host)
    cpu_map(host)
    assert binding.calls == [
        "open",
        "setKeepAlive(5, 3)",
        "getHostname",
        "getMemoryStats",
        "getCPUMap",
    ]
    assert len(binding.threads) == 1
    assert threading.current_thread() not in binding.threads


def test_answers_are_plain_values(host):
    assert host.hostname() == "host1"
    assert memory_kib(host) == 8 * 1024 * 1024
    assert cpu_map(host) == (True, True)
    assert cpu_count(host) == 2
    sources = Sources(host)
    assert cpu_models(sources, "x86_64") == ("Haswell-noTSX", "EPYC")
    document = domain_capabilities(sources, GuestType("x86_64", None, "kvm"))
    assert document is not None and document.tag == "domainCapabilities"
    assert sources.failed() == {}


def test_what_can_not_change_is_asked_for_once_per_connection(host, binding):
    host.hostname()
    sources = Sources(host)
    for _ in range(3):
        cpu_models(sources, "x86_64")
        expanded_cpu(sources, *CPU)
    calls = binding.calls
    assert calls.count("getCPUModelNames") == calls.count("baselineCPU") == 1
    binding.lose_connections()
    host.hostname()
    expanded_cpu(sources, *CPU)
    assert calls.count("baselineCPU") == 2


def test_only_named_devdax_namespaces_are_listed(host, tmp_path):
    with pytest.raises(DriverNotReady, match="libnvdimm is not loaded"):
        host.read_files("names", namespace_names)
    modes = {"ns0": "dax", "": "dax", "ns2": "dax", "ns3": "memory", "ns4": "raw"}
    for number, (name, mode) in enumerate(modes.items()):
        device = tmp_path / f"sys/bus/nd/devices/namespace0.{number}"
        device.mkdir(parents=True)
        (device / "alt_name").write_text(f"{name}\n")
        (device / "mode").write_text(f"{mode}\n")
    assert host.read_files("names", namespace_names) == {"ns0", "ns2"}


def test_a_guest_that_goes_while_guests_are_read_is_left_out(host, binding):
    binding.answers["listAllDomains"] = [FakeDomain("<domain/>"), FakeDomain(None)]
    assert [each.tag for each in list_all_guests(host).documents.values()] == ["domain"]


@pytest.mark.slow
def test_a_file_system_that_hangs_keeps_nobody_from_asking_libvirt(binding, tmp_path, monkeypatch):
    host = FakeHost(tmp_path, binding, deadlines=Deadlines(connect=60, call=1)).connection()
    released = threading.Event()
    monkeypatch.setattr(
        "drivers.libvirt.facts.disk.file_system_size", lambda path: released.wait(600)
    )
    with pytest.raises(DriverNotReady, match="file system of /srv.*no answer within"):
        size_of(host, Path("/srv"))
    assert host.hostname() == "host1"
    with pytest.raises(DriverNotReady, match="still waiting"):
        size_of(host, Path("/srv"))
    released.set()
    host.close()


def test_a_lost_connection_is_opened_again_by_the_next_question(host, binding):
    host.hostname()
    binding.lose_connections()
    assert host.hostname() == "host1"
    assert binding.calls.count("open") == 2
    assert binding.connections[0].closed_by in binding.threads


def test_a_connection_lost_during_a_call_says_what_was_asked(host, binding):
    host.hostname()
    connection = binding.connections[0]

    class Dying(FakeLibvirtError):
        def get_error_message(self) -> str:
            connection.alive = False
            return "end of file"

    binding.refused["getMemoryStats"] = Dying("end of file")
    with pytest.raises(DriverNotReady, match="fake:///one.*memory.*end of file"):
        memory_kib(host)
    del binding.refused["getMemoryStats"]
    assert memory_kib(host) == 8 * 1024 * 1024


def test_a_daemon_that_is_down_is_tried_once_a_second_and_found_when_back(host, binding, clock):
    binding.down = FakeLibvirtError("no such socket", 38, errno.ENOENT)
    for _ in range(300):
        with pytest.raises(DriverNotReady, match="fake:///one: no such socket"):
            host.hostname()
        clock.now += 0.1
    assert 25 <= binding.calls.count("open") <= 31
    binding.down = None
    clock.now += RECONNECT_PAUSE
    assert host.hostname() == "host1"
    assert "openReadOnly" not in binding.calls


@pytest.mark.slow
def test_a_hung_call_ends_at_its_deadline_and_the_next_are_refused_at_once(impatient, binding):
    host = impatient
    host.hostname()
    binding.hang()
    with pytest.raises(DriverNotReady, match=r"fake:///one.*memory.*1 s"):
        memory_kib(host)
    for _ in range(20):
        with pytest.raises(DriverNotReady, match="still waiting for an earlier call"):
            host.hostname()
    assert sum(t.name == "libvirt" for t in threading.enumerate()) == 1
    stuck = next(t for t in threading.enumerate() if t.name == "libvirt")
    binding.release()
    stuck.join(60)
    assert host.hostname() == "host1"
    assert binding.connections[0].closed_by is stuck


@pytest.mark.slow
def test_opening_has_a_deadline_as_well(impatient, binding):
    binding.hang()
    with pytest.raises(DriverNotReady, match=r"a connection.*1 s"):
        impatient.hostname()
    assert binding.calls == ["open"]


@pytest.mark.parametrize(
    "refusal",
    [
        FakeLibvirtError("Permission denied", 38, errno.EACCES),
        FakeLibvirtError("authentication failed", FakeLibvirt.VIR_ERR_AUTH_FAILED),
    ],
)
def test_where_writing_is_not_allowed_a_read_only_connection_does(host, binding, refusal):
    binding.down, binding.read_only_down = refusal, None
    binding.openReadOnly = lambda uri: FakeLibvirt.connect(binding, "openReadOnly", None)
    assert host.hostname() == "host1"
    assert binding.calls[:2] == ["open", "openReadOnly"]


def test_an_optional_answer_may_be_missing_and_its_reason_is_kept(host, binding):
    binding.refused["getDomainCapabilities"] = FakeLibvirtError("operation forbidden", 29)
    sources = Sources(host)
    assert domain_capabilities(sources, GuestType("x86_64", None, "kvm")) is None
    assert "operation forbidden" in sources.failed()["domain capabilities of x86_64 on kvm"]
    del binding.refused["getDomainCapabilities"]
    assert domain_capabilities(sources, GuestType("x86_64", None, "kvm")) is not None
    assert sources.failed() == {}


def test_what_is_asked_no_more_has_not_failed(host, binding):
    binding.refused["baselineCPU"] = FakeLibvirtError("no such model")
    sources = Sources(host)
    expanded_cpu(sources, *CPU)
    assert sources.failed()
    sources.begin_period()
    assert sources.failed() == {}


@pytest.mark.parametrize(
    ("call", "asked", "instead"),
    [("getMemoryStats", memory_kib, 1024), ("getCPUMap", cpu_map, None)],
)
def test_an_unsupported_call_has_a_substitute_and_other_errors_have_none(
    host, binding, call, asked, instead
):
    binding.refused[call] = FakeLibvirtError("not supported", 3)
    assert asked(host) == instead
    binding.refused[call] = FakeLibvirtError("out of luck")
    with pytest.raises(DriverNotReady, match="out of luck"):
        asked(host)


def test_a_side_connection_is_opened_again_after_an_error(host, binding):
    """A modular daemon answers behind it, whose restart is not seen."""
    binding.refused["listAllDomains"] = FakeLibvirtError("client socket is closed")
    with pytest.raises(DriverNotReady, match="client socket is closed"):
        list_all_guests(host)
    del binding.refused["listAllDomains"]
    list_all_guests(host)
    assert len(binding.connections) == 3
    binding.refused["listAllDomains"] = FakeLibvirtError("unsupported", binding.VIR_ERR_NO_SUPPORT)
    list_all_guests(host)
    list_all_guests(host)
    assert len(binding.connections) == 3


def test_no_error_holds_a_connection(host, binding):
    """The last reference closes a virConnect, and closing can hang."""
    binding.refused["getHostname"] = FakeLibvirtError("no")
    with pytest.raises(DriverNotReady) as caught:
        host.hostname()
    error: BaseException | None = caught.value
    while error is not None:
        assert not isinstance(error, FakeLibvirtError)
        trace = error.__traceback__
        while trace is not None:
            assert not any(v is binding.connections[0] for v in trace.tb_frame.f_locals.values())
            trace = trace.tb_next
        error = error.__cause__ or error.__context__


def test_the_file_system_of_a_missing_path_is_its_nearest_parents(host, binding, tmp_path):
    (tmp_path / "var").mkdir()
    size = size_of(host, Path("/var/lib/not/there"))
    assert size == size_of(host, Path("/var")) > 0
    assert binding.calls == [], "libvirt is not needed for it"


def test_without_the_library_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "libvirt", None)
    with pytest.raises(DriverLoadFailed, match=r"pip install .*\[libvirt\]"):
        load_binding()


def test_a_missing_library_of_the_system_is_named_as_its_package(monkeypatch, tmp_path):
    (tmp_path / "libvirt.py").write_text("raise ImportError('libvirt.so.0: no such file')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "libvirt", raising=False)
    with pytest.raises(DriverLoadFailed, match=r"libvirt\.so\.0: no such file: install libvirt0"):
        load_binding()


def test_cached_images_count_with_what_they_take_of_the_disk(host, tmp_path):
    instances, cache = Path("/srv/instances"), Path("/srv/instances/_base")
    assert cached_bytes(host, cache, instances) == 0, "there is no cache yet"
    (tmp_path / "srv/instances/_base/sub").mkdir(parents=True)
    (tmp_path / "srv/instances/_base/image").write_bytes(b"x" * 10_000)
    with (tmp_path / "srv/instances/_base/sparse").open("wb") as file:
        file.truncate(1 << 30)
    assert 10_000 <= cached_bytes(host, cache, instances) < 1 << 20


def test_an_image_that_is_removed_while_images_are_counted_is_skipped(host, tmp_path, monkeypatch):
    directory = tmp_path / "srv/instances/_base"
    directory.mkdir(parents=True)
    for name in ("a", "b", "c"):
        (directory / name).write_bytes(b"x" * 10_000)

    def listed_before_a_removal(path):
        entries = list(scandir(path))
        (directory / "b").unlink()
        return iter(entries)

    scandir = os.scandir
    monkeypatch.setattr(os, "scandir", listed_before_a_removal)
    instances = Path("/srv/instances")
    assert cached_bytes(host, instances / "_base", instances) >= 20_000
