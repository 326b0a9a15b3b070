"""What holds for every file of the state directory, whoever writes it."""

import shutil
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from agent.nodes.identity import IdentityError, NodeTable, compute_id
from agent.registry.checks import StatusChange
from agent.reporting.status import StatusFile
from agent.state.document import Unusable
from agent.state.driver_store import DriverStore
from agent.state.saved_root import SavedRoot, root_path
from agent.switching.host_status import change_saved_status, saved_status, status_document
from agent.switching.machine import ServiceStatus
from drivers.driver import InMemory
from reportclient.model import Provider
from reportclient.provider_tree import Claims
from reportclient.snapshot import Snapshot
from reportclient.view import View

ROOT = "c0ffee00-0000-4000-8000-000000000001"


def root(state: Path) -> None:
    kept = SavedRoot.in_directory(state, ROOT)
    kept.load()
    held = Claims(traits=frozenset({"HW_CPU_X86_AVX"}))
    kept.save_ledger(replace(kept.ledger.adding("driver:a", ROOT, held), known=True))
    kept.save(ROOT, View(Snapshot.build([Provider(ROOT, "host", None)]), {ROOT: 1}))


def status(state: Path) -> None:
    StatusFile(state, "host", 60.0, lambda: 0.0)([])


def standing(state: Path) -> None:
    with suppress(Unusable):
        change_saved_status(state, StatusChange("host1", disabled=True))
    document = status_document(state)
    try:
        saved_status(document)
    except Unusable as err:
        assert "service.json" in str(err)
    document.save(asdict(ServiceStatus(True, "reason", 3)))


def remembered(state: Path) -> None:
    store = DriverStore(state)
    store.load("libvirt-host")
    store.save("libvirt-host", {"name": "host1"})
    assert store.load("libvirt-host") == {"name": "host1"}


def nodes(state: Path) -> None:
    try:
        NodeTable.in_directory(state).uuids(["a"], ROOT, {})
    except IdentityError:
        (state / "nodes.json").unlink()  # an identity is not found out anew
        nodes(state)


FILES = {
    root_path(Path(), ROOT).name: root,
    "status.json": status,
    "service.json": standing,
    "nodes.json": nodes,
    "driver-libvirt-host.json": remembered,
}
Use = Callable[[Path], None]
every_file = pytest.mark.parametrize(("name", "use"), FILES.items(), ids=FILES.keys())


@every_file
@pytest.mark.parametrize("data", ["[" * 100_000, '{"version":' * 100_000, "{}\n" + "[" * 100_000])
def test_what_is_nested_too_deeply_is_damage_and_heals(
    tmp_path: Path, name: str, use: Use, data: str
) -> None:
    (tmp_path / name).write_text(data)
    use(tmp_path)
    assert (tmp_path / name).read_text() != data
    use(tmp_path)


@every_file
def test_a_link_where_a_file_is_prepared_leads_nowhere(tmp_path: Path, name: str, use: Use) -> None:
    victim = tmp_path / "victim"
    victim.write_text("precious")
    for scratch in (f".{name}", Path(name).with_suffix(".new").name):
        (tmp_path / scratch).symlink_to(victim)
    use(tmp_path)
    assert victim.read_text() == "precious"
    assert (tmp_path / name).exists()


def identity(state: Path) -> None:
    try:
        compute_id(state)
    except IdentityError as err:
        assert "precious" not in str(err)


@pytest.mark.parametrize("name", [*FILES, "compute_id"])
def test_a_link_in_place_of_a_file_is_never_followed(tmp_path: Path, name: str) -> None:
    """Root runs computectl in a directory that belongs to another user."""
    use = FILES.get(name, identity)
    elsewhere, state = tmp_path / "elsewhere", tmp_path / "state"
    elsewhere.mkdir()
    for target, content in (("there", "precious"), ("to be created", None)):
        state.mkdir()
        if content:
            (elsewhere / target).write_text(content)
        (state / name).symlink_to(elsewhere / target)
        use(state)
        shutil.rmtree(state)
    assert {path.name: path.read_text() for path in elsewhere.iterdir()} == {"there": "precious"}


@pytest.mark.parametrize("name", ["other/../x", "../x", "/x", "a/b", "", "a\0b", "a" * 201])
def test_a_driver_saves_and_loads_nothing_outside_of_its_documents(tmp_path, name: str) -> None:
    state = tmp_path / "state"
    (state / "driver-other").mkdir(parents=True)
    for store in (InMemory(), DriverStore(state)):
        with pytest.raises(ValueError, match="is no name of a saved object"):
            store.save(name, {})
        with pytest.raises(ValueError, match="is no name of a saved object"):
            store.load(name)
    assert [path.name for path in tmp_path.rglob("*")] == ["state", "driver-other"]


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"lanes": {1, 2}}, r"a saved object has {1, 2}, which JSON has not"),
        ({"lanes": [float("nan")]}, "a saved object has nan, which JSON has not"),
        ({1: "first"}, "a saved object has the key 1: JSON has only texts as keys"),
        ({"lanes": [{"a": {None: 1}}]}, "a saved object has the key None"),
    ],
)
def test_what_json_cant_give_back_is_saved_by_no_store(tmp_path, fields, said) -> None:
    for store in (InMemory(), DriverStore(tmp_path)):
        with pytest.raises(ValueError, match=said):
            store.save("acme-lanes", fields)
        assert store.load("acme-lanes") is None


def test_what_a_driver_saved_does_not_change_with_its_own_objects(tmp_path: Path) -> None:
    for store in (InMemory(), DriverStore(tmp_path)):
        lanes = [1]
        store.save("acme-lanes", {"lanes": lanes, "pair": (1, 2)})
        lanes.append(2)
        loaded = store.load("acme-lanes")
        assert loaded == {"lanes": [1], "pair": [1, 2]}
        loaded["lanes"].append(3)
        assert store.load("acme-lanes") == {"lanes": [1], "pair": [1, 2]}


def test_a_driver_gets_back_what_it_saved_whatever_its_fields_are_called(tmp_path: Path) -> None:
    """As from the store that tests and the kit have."""
    saved = {"version": 7, "sha256": "x", "lanes": [1]}
    for store in (InMemory(), DriverStore(tmp_path)):
        store.save("acme-lanes", saved)
        assert store.load("acme-lanes") == saved
    assert DriverStore(tmp_path).load("acme-lanes") == saved, "after a restart too"
