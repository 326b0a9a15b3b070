"""Loading drivers by name: from real entry points, and what is said about broken ones."""

import importlib
import sys
from importlib import metadata
from pathlib import Path

import pytest
from oslo_config import cfg
from stevedore.extension import Extension, ExtensionManager

from drivers.abilities import Degradable, Identified, Lifecycle
from drivers.api import DriverContext
from drivers.errors import DriverLoadFailed, DriverNotFound, DriverNotReady
from drivers.loader import GROUP, driver_from, installed, load_drivers
from drivers.opts import CALL_OPTS

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

class Explosive(Good):
    def __init__(self, context): raise OSError("no such device")

class Hanging(Good):
    def __init__(self, context):
        import threading
        threading.Event().wait()

class NoAbilities(Good):
    capabilities = None

class BadOptions(Able):
    @classmethod
    def list_opts(cls): return [("able", [cfg.StrOpt("size")])]

class Listed(Good):
    listed = None
    @classmethod
    def list_opts(cls): return cls.listed

class Dicted(Listed): listed = {"dicted": [cfg.StrOpt("size")]}
class Texts(Listed): listed = [("texts", "abc")]
class Named(Listed): listed = [("named", ["size"])]
class Required(Listed):
    listed = [
        (cfg.OptGroup("needy"), (cfg.StrOpt("token", required=True),)),
        (None, [cfg.StrOpt("needy_token", required=True)]),
    ]
"""

ENTRY_POINTS = f"""[{GROUP}]
t-good = acme_drivers:Good
t-able = acme_drivers:Able
t-half = acme_drivers:Half
t-explosive = acme_drivers:Explosive
t-bad-options = acme_drivers:BadOptions
t-none = acme_drivers:Listed
t-dict = acme_drivers:Dicted
t-text = acme_drivers:Texts
t-names = acme_drivers:Named
t-required = acme_drivers:Required
t-no-abilities = acme_drivers:NoAbilities
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
    assert not loaded.abilities


def test_drivers_come_in_the_order_asked_for_with_options_and_abilities(acme, context):
    able, good = load_drivers(["t-able", "t-good"], context)
    assert (able.name, good.name) == ("t-able", "t-good")
    assert {Lifecycle, Identified, Degradable} <= able.abilities
    assert able.driver.size == 3, "its options are registered before it is made"


def test_installed_tells_origins_and_imports_nothing(acme):
    assert installed()["t-no-module"] == "acme_nowhere:Good (acme-drivers 2.5)"
    assert "acme_drivers" not in sys.modules


def test_an_unknown_name_lists_those_that_are_installed(acme, context):
    with pytest.raises(DriverNotFound) as caught:
        load_drivers(["t-explosive", "t-gud"], context)
    text = str(caught.value)
    assert "no driver 't-gud'" in text and "is t-good meant?" in text
    assert all(name in text for name in installed())
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
    assert "list_opts(): [able] size is defined otherwise by the agent or by another" in str(err)
    assert isinstance(err.__cause__, cfg.DuplicateOptError)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("t-none", "None is no such pair"),
        ("t-dict", "'dicted' is no such pair"),
        ("t-text", "('texts', 'abc') is no such pair"),
        ("t-names", "('named', ['size']) is no such pair"),
    ],
)
def test_list_opts_that_returns_no_options_is_named(acme, context, name: str, words: str) -> None:
    text = str(failure(name, context))
    assert f"list_opts() has to return [(group, [oslo.config options])]: {words}" in text


def test_a_required_option_without_a_value_is_named(acme, context) -> None:
    text = str(failure("t-required", context))
    assert "value required for option token in group [needy]" in text
    context.conf.set_override("token", "a", "needy")
    assert "value required for option needy_token in group [DEFAULT]" in str(
        failure("t-required", context)
    )
    context.conf.set_override("needy_token", "a")
    load_drivers(["t-required"], context)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("t-half", "acme_drivers:Half (acme-drivers 2.5): Half does not define update_pro"),
        ("t-no-abilities", "acme_drivers:NoAbilities (acme-drivers 2.5): capabilities is None"),
    ],
)
def test_a_class_that_can_be_no_driver_is_refused_by_its_entry_point(acme, context, name, words):
    """For which reasons: test_driver_classes.py."""
    assert words in str(failure(name, context))


def test_one_name_from_two_distributions_is_refused_naming_both(acme, context, tmp_path):
    distribute(tmp_path, "other", "1", f"[{GROUP}]\nt-good = acme_drivers:Able\n")
    text = str(failure("t-good", context))
    assert "acme_drivers:Good (acme-drivers 2.5)" in text
    assert "acme_drivers:Able (other 1)" in text


def test_without_a_distribution_the_module_and_class_are_named(tmp_path):
    point = metadata.EntryPoint("plain", f"{__name__}:dict", GROUP)
    with pytest.raises(DriverLoadFailed, match=f"driver 'plain' = {__name__}:dict: "):
        driver_from(Extension("plain", point, dict, None), DriverContext("host1", tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize(("name", "call"), [("t-import-hangs", "import"), ("t-hangs", "")])
def test_a_driver_that_hangs_when_it_is_loaded_is_not_ready(
    acme, context, name: str, call: str
) -> None:
    context.conf.register_opts(CALL_OPTS, "compute")
    context.conf.set_override("driver_timeout", 1, "compute")
    with pytest.raises(DriverNotReady) as caught:
        load_drivers([name], context)
    assert str(caught.value).startswith(f"driver '{name}' = acme_")
    assert f"{call} has not returned within 1 s" in str(caught.value)
