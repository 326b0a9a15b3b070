"""Loading drivers by name: from real entry points, and what is said about broken ones."""

from __future__ import annotations

import importlib
import sys
from importlib import metadata
from pathlib import Path

import pytest
from oslo_config import cfg
from stevedore.driver import DriverManager
from stevedore.extension import Extension, ExtensionManager

from drivers.abilities import Degradable, Identified, Lifecycle
from drivers.api import ComputeDriver, DriverContext
from drivers.errors import DriverLoadFailed, DriverNotFound, DriverNotReady
from drivers.loader import GROUP, LoadedDriver, driver_from, installed, load_drivers
from drivers.opts import CALL_OPTS
from reportclient.plain_text import error_text

MODULE = """
import sys
from oslo_config import cfg
from drivers.api import ComputeDriver

class Good(ComputeDriver):
    def get_available_nodes(self): return [self.context.host]
    def update_provider_tree(self, provider_tree, nodename, allocations=None): pass

class Able(Good):
    def __init__(self, context):
        super().__init__(context)
        self.size = context.conf.able.size
    @classmethod
    def list_opts(cls): return [("able", [cfg.IntOpt("size", default=3)])]
    def init_host(self, host): pass
    def cleanup_host(self, host): pass
    def get_nodenames_by_uuid(self): return {}
    def degraded(self, node): return {}

class Half(ComputeDriver):
    def get_available_nodes(self): return []

class Newer(Good):
    api_version = (1, 1)

class Explosive(Good):
    def __init__(self, context): raise OSError("no such device")

class Hanging(Good):
    def __init__(self, context):
        import threading
        threading.Event().wait()

class NoAbilities(Good):
    capabilities = None

class ListedAbilities(Good):
    capabilities = ["supports_migrate_to_same_host"]

class BadOptions(Able):
    @classmethod
    def list_opts(cls): return [("able", [cfg.StrOpt("size")])]

def function(context): return Good(context)
"""

ENTRY_POINTS = f"""[{GROUP}]
t-good = acme_drivers:Good
t-able = acme_drivers:Able
t-half = acme_drivers:Half
t-newer = acme_drivers:Newer
t-explosive = acme_drivers:Explosive
t-bad-options = acme_drivers:BadOptions
t-no-abilities = acme_drivers:NoAbilities
t-listed = acme_drivers:ListedAbilities
t-function = acme_drivers:function
t-no-module = acme_nowhere:Good
t-no-attribute = acme_drivers:Goof
t-import = acme_broken:Good
t-exit = acme_exits:Good
t-assert = acme_asserts:Good
t-import-hangs = acme_hangs:Good
t-hangs = acme_drivers:Hanging
"""


@pytest.fixture
def acme(tmp_path: Path, monkeypatch):
    """A distribution on sys.path, as pip would leave it."""
    (tmp_path / "acme_drivers.py").write_text(MODULE)
    (tmp_path / "acme_broken.py").write_text("import acme_missing_library\n")
    (tmp_path / "acme_exits.py").write_text("import sys\nsys.exit('bye')\n")
    (tmp_path / "acme_asserts.py").write_text("assert False, 'a wrong day'\n")
    (tmp_path / "acme_hangs.py").write_text("import threading\nthreading.Event().wait()\n")
    distribute(tmp_path, "acme_drivers", "2.5", ENTRY_POINTS)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(ExtensionManager, "ENTRY_POINT_CACHE", {})
    yield tmp_path
    for name in [name for name in sys.modules if name.startswith("acme_")]:
        del sys.modules[name]


def distribute(where: Path, name: str, version: str, entry_points: str) -> None:
    folder = where / f"{name}-{version}.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {name.replace('_', '-')}\nVersion: {version}\n"
    )
    (folder / "entry_points.txt").write_text(entry_points)
    importlib.invalidate_caches()


@pytest.fixture
def context(tmp_path: Path) -> DriverContext:
    conf = cfg.ConfigOpts()
    conf([], default_config_files=[])
    return DriverContext("host1", tmp_path, conf)


def failure(name: str, context: DriverContext) -> DriverLoadFailed:
    with pytest.raises(DriverLoadFailed) as caught:
        load_drivers([name], context)
    return caught.value


def test_a_driver_is_made_from_its_entry_point(acme, context):
    (loaded,) = load_drivers(["t-good"], context)
    assert loaded.name == "t-good"
    assert loaded.driver.get_available_nodes() == ["host1"]
    assert loaded.driver.context is context


def test_a_driver_without_optional_abilities_has_none(acme, context):
    (loaded,) = load_drivers(["t-good"], context)
    assert not loaded.abilities


def test_optional_abilities_are_found(acme, context):
    (loaded,) = load_drivers(["t-able"], context)
    assert {Lifecycle, Identified, Degradable} <= loaded.abilities


def test_options_are_there_before_the_driver_is_made(acme, context):
    (loaded,) = load_drivers(["t-able"], context)
    assert loaded.driver.size == 3


def test_drivers_come_in_the_order_asked_for(acme, context):
    names = [loaded.name for loaded in load_drivers(["t-able", "t-good"], context)]
    assert names == ["t-able", "t-good"]


def test_installed_tells_origins_and_imports_nothing(acme):
    assert installed()["t-no-module"] == "acme_nowhere:Good (acme-drivers 2.5)"
    assert "acme_drivers" not in sys.modules


def test_an_unknown_name_lists_those_that_are_installed(acme, context):
    with pytest.raises(DriverNotFound) as caught:
        load_drivers(["t-good", "t-gud"], context)
    text = str(caught.value)
    assert "no driver 't-gud'" in text and "is t-good meant?" in text
    assert all(name in text for name in installed())


def test_an_unknown_name_is_found_before_any_driver_is_made(acme, context):
    with pytest.raises(DriverNotFound):
        load_drivers(["t-explosive", "t-nothing-like-it"], context)


def test_a_name_like_no_other_gets_no_suggestion(acme, context):
    with pytest.raises(DriverNotFound) as caught:
        load_drivers(["xyzzy"], context)
    assert "meant?" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value", "cause", "words"),
    [
        ("t-no-module", "acme_nowhere:Good", ModuleNotFoundError, "acme_nowhere"),
        ("t-no-attribute", "acme_drivers:Goof", AttributeError, "Goof"),
        ("t-import", "acme_broken:Good", ModuleNotFoundError, "acme_missing_library"),
        ("t-exit", "acme_exits:Good", SystemExit, "bye"),
        ("t-assert", "acme_asserts:Good", AssertionError, "a wrong day"),
        ("t-explosive", "acme_drivers:Explosive", OSError, "no such device"),
    ],
)
def test_a_failure_names_the_entry_point_and_chains_its_cause(
    acme, context, name, value, cause, words
):
    err = failure(name, context)
    assert f"driver {name!r} = {value} (acme-drivers 2.5): " in str(err)
    assert words in str(err)
    assert isinstance(err.__cause__, cause)


def test_clashing_options_name_the_entry_point(acme, context):
    load_drivers(["t-able"], context)
    err = failure("t-bad-options", context)
    assert "acme_drivers:BadOptions" in str(err)
    assert isinstance(err.__cause__, cfg.DuplicateOptError)


def test_what_is_no_driver_is_refused(acme, context):
    assert "is not a subclass of drivers.api.ComputeDriver" in str(failure("t-function", context))


def test_an_abstract_driver_is_refused_with_the_missing_method(acme, context):
    assert "Half does not define update_provider_tree" in str(failure("t-half", context))


def test_a_driver_for_a_newer_api_is_refused(acme, context):
    text = str(failure("t-newer", context))
    assert "version 1.1 of the driver API, this agent supports 1.0 to 1.0" in text


@pytest.mark.parametrize(
    ("name", "value"), [("t-no-abilities", "NoAbilities"), ("t-listed", "ListedAbilities")]
)
def test_capabilities_that_are_no_mapping_are_refused(acme, context, name, value):
    text = str(failure(name, context))
    assert f"acme_drivers:{value}" in text
    assert "capabilities is " in text and "not a mapping" in text


def test_one_name_from_two_distributions_is_refused_naming_both(acme, context, tmp_path):
    distribute(tmp_path, "other", "1", f"[{GROUP}]\nt-good = acme_drivers:Able\n")
    text = str(failure("t-good", context))
    assert "acme_drivers:Good (acme-drivers 2.5)" in text
    assert "acme_drivers:Able (other 1)" in text


class Plain(ComputeDriver):
    def get_available_nodes(self):
        return []

    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        """Nothing."""


def extension(driver_class: type) -> Extension:
    point = metadata.EntryPoint("plain", f"{__name__}:{driver_class.__name__}", GROUP)
    manager = DriverManager.make_test_instance(Extension("plain", point, driver_class, None))
    return manager.extensions[0]


def test_an_extension_of_stevedores_test_instance_works_without_a_configuration(tmp_path):
    loaded = driver_from(extension(Plain), DriverContext("host1", tmp_path))
    assert isinstance(loaded, LoadedDriver) and isinstance(loaded.driver, Plain)


def test_without_a_distribution_the_module_and_class_are_named(tmp_path):
    with pytest.raises(DriverLoadFailed, match=f"driver 'plain' = {__name__}:dict: "):
        driver_from(extension(dict), DriverContext("host1", tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "call"), [("t-import-hangs", "import"), ("t-hangs", "")])
def test_a_driver_that_hangs_when_it_is_loaded_may_be_well_at_the_next_start(
    acme, context, name: str, call: str
) -> None:
    context.conf.register_opts(CALL_OPTS, "compute")
    context.conf.set_override("driver_timeout", 1, "compute")
    with pytest.raises(DriverNotReady) as caught:
        load_drivers([name], context)
    assert str(caught.value).startswith(f"driver '{name}' = acme_")
    assert f"{call} has not returned within 1 s" in str(caught.value)


def test_what_an_error_says_is_bounded() -> None:
    text = error_text(ValueError("x" * 100_000))
    assert len(text) < 1100 and text.endswith("(100,000 characters in all)")
