"""What is said about the source of a driver that was written for Nova."""

from __future__ import annotations

import textwrap

import pytest

from driverkit.porting.advice import diagnostics
from driverkit.porting.driver_source import DriverSource
from driverkit.porting.nova_api import CALLED, HELPERS, TREE_LOOKS, TREE_METHODS
from drivers import abilities
from drivers.api import ComputeDriver

GOOD = """
from drivers.api import ComputeDriver

class Mine(ComputeDriver):
    def get_available_nodes(self):
        return [self.context.host]
    def update_provider_tree(self, provider_tree, nodename, allocations=None):
        {body}
"""


def found(text: str) -> list[tuple[int, str, str]]:
    source = DriverSource.parse(textwrap.dedent(text).lstrip("\n"))
    return [(each.line, each.verdict, each.what) for each in diagnostics(source)]


def in_the_body(body: str, before: str = "") -> list[tuple[str, str]]:
    lines = found(before + GOOD.format(body=body))
    return [(verdict, what) for _, verdict, what in lines if verdict != "fine"]


def test_a_driver_of_this_agent_has_nothing_to_change() -> None:
    assert in_the_body("provider_tree.update_inventory(nodename, {})") == []


@pytest.mark.parametrize("method", sorted(TREE_METHODS - set(TREE_LOOKS)))
def test_each_method_of_the_tree_is_fine(method: str) -> None:
    assert in_the_body(f"provider_tree.{method}(nodename)") == []


def test_a_method_that_the_tree_does_not_have_is_named() -> None:
    assert in_the_body("provider_tree.latch()") == [("must", "provider_tree.latch")]


def test_the_tree_is_known_by_its_place_whatever_it_is_called() -> None:
    text = GOOD.format(body="tree.frobnicate(nodename)").replace("provider_tree,", "tree,")
    assert (7, "must", "tree.frobnicate") in found(text)


def test_keeping_the_tree_is_named() -> None:
    assert in_the_body("self.tree = provider_tree") == [("must", "self.tree = provider_tree")]


@pytest.mark.parametrize("method", TREE_LOOKS)
def test_what_sets_strangers_things_too_is_to_be_looked_at(method: str) -> None:
    assert in_the_body(f"provider_tree.{method}(nodename, [])") == [
        ("look", f"provider_tree.{method}")
    ]


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("from nova import exception\n", "exception.ReshapeNeeded"),
        ("import nova.conf\n", "nova.conf.CONF.host"),
        ("import nova.exception as exc\n", "exc.Oops"),
        ("from nova.virt.hardware import parse_cpu_spec\n", "parse_cpu_spec"),
        ("from oslo_config import cfg\n", "cfg.CONF.host"),
        ("import eventlet\n", "eventlet.sleep"),
        ("from oslo_privsep import priv_context\n", "priv_context.PrivContext"),
        ("from nova.objects import fields\n", "fields.ResourceClass.VCPU"),
    ],
)
def test_a_use_of_what_is_not_here_is_named(line: str, use: str) -> None:
    assert ("must", use) in in_the_body(f"print({use})", before=line)


def test_a_name_that_stands_for_the_configuration_is_seen_through() -> None:
    before = "from oslo_config import cfg\nCONF = cfg.CONF\n"
    assert ("must", "CONF.libvirt.uri") in in_the_body("print(CONF.libvirt.uri)", before)


def test_options_of_the_drivers_own_may_stay() -> None:
    assert in_the_body("pass", "from oslo_config import cfg\nOPTS = [cfg.StrOpt('a')]\n") == []


@pytest.mark.parametrize(
    "library", ["os_traits", "os_resource_classes", "json", "oslo_utils.units"]
)
def test_what_is_here_too_is_no_finding(library: str) -> None:
    assert in_the_body(f"print({library}.x)", f"import {library}\n") == []


def test_code_that_nobody_reaches_is_one_line_and_takes_its_imports_along() -> None:
    lines = in_the_body(
        "pass\n    def spawn(self, context):\n        objects.Instance.get(CONF)\n",
        "from nova import objects\n",
    )
    assert lines == [("drop", "import of nova.objects"), ("drop", "spawn()")]


def test_what_a_reached_method_calls_is_reached() -> None:
    body = (
        "self._deep()\n    def _deep(self):\n        helper()\ndef helper():\n    exception.Oops\n"
    )
    lines = in_the_body(body, "from nova import exception\n")
    assert lines == [("must", "import of nova.exception"), ("must", "exception.Oops")]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("self, context", None),
        ("self, context, host=None", None),
        ("self, virtapi, read_only=False", "look"),
        ("self, context, other", "must"),
        ("self", "must"),
    ],
)
def test_the_constructor_gets_one_context(arguments: str, said: str | None) -> None:
    lines = in_the_body(f"pass\n    def __init__({arguments}):\n        pass")
    verdicts = [verdict for verdict, what in lines if what.startswith("__init__(self")]
    assert verdicts == ([said] if said else [])


@pytest.mark.parametrize(
    ("use", "said"),
    [
        ("super().__init__(virtapi)", []),
        ("self.virtapi = virtapi", []),
        ("virtapi.wait_for_instance_event()", ["virtapi.wait_for_instance_event"]),
        ("Operations(virtapi)", ["virtapi"]),
    ],
)
def test_virtapi_may_be_handed_to_the_base_class_and_not_be_used(use: str, said: list) -> None:
    lines = in_the_body(f"pass\n    def __init__(self, virtapi):\n        {use}")
    assert [what for verdict, what in lines if verdict == "must"] == said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("root.find(nodename).children", []),
        ("[child.name for child in root.children.values()]", []),
        ("root.frobnicate()", ["root.frobnicate"]),
        ("[child.frobnicate for child in list(root.children.values())]", ["child.frobnicate"]),
        ("root.traits = set()", ["root.traits"]),
    ],
)
@pytest.mark.parametrize("roots", ["roots", "roots_by_uuid.values()", "roots_by_name.values()"])
def test_live_providers_are_looked_at_too(line: str, said: list, roots: str) -> None:
    lines = in_the_body(f"\n        for root in provider_tree.{roots}:\n            {line}")
    assert lines == [("must", what) for what in said]


@pytest.mark.parametrize(
    ("there", "lost"), [("init_host", "cleanup_host"), ("cleanup_host", "init_host")]
)
def test_half_a_lifecycle_is_named(there: str, lost: str) -> None:
    lines = in_the_body(f"pass\n    def {there}(self, host):\n        pass")
    assert lines == [("must", f"Mine: no {lost}")]


def test_a_tree_method_without_allocations_is_named() -> None:
    text = GOOD.format(body="pass").replace(", allocations=None", "")
    assert (6, "must", "update_provider_tree()") in found(text)


def test_older_methods_are_looked_at_where_they_hold_and_dropped_where_they_do_not() -> None:
    older = "\n    def get_inventory(self, nodename):\n        return {}"
    assert in_the_body(f"pass{older}") == [("drop", "get_inventory()")]
    alone = found(
        f"class Mine(driver.ComputeDriver):{older}\n    def get_available_nodes(self): pass"
    )
    assert ("look", "get_inventory()") in [(verdict, what) for _, verdict, what in alone]


def test_a_class_that_says_nothing_is_named() -> None:
    lines = found("class Mine(driver.ComputeDriver):\n    pass\n")
    assert (1, "must", "Mine: no get_available_nodes") in lines
    assert (1, "must", "Mine: no update_provider_tree") in lines


def test_every_method_that_the_agent_calls_is_in_the_table() -> None:
    protocols = [each for each in vars(abilities).values() if getattr(each, "_is_protocol", False)]
    names = {name for each in (ComputeDriver, *protocols) for name in vars(each) if name[0] != "_"}
    fields = {"api_version", "capabilities", "thread_safe"}
    assert set(CALLED) - {"__init__"} == names - fields


@pytest.mark.parametrize(
    ("before", "body"),
    [
        ("from nova.compute import provider_tree\n", "provider_tree.exists(nodename)"),
        ("from nova.virt import driver\n", "return [driver.name for driver in nodename]"),
        ("from nova import utils\n", "utils = 1; print(utils)"),
        ("from nova import utils\n", "for utils in nodename: print(utils.name)"),
        ("from nova import utils\n", "return (lambda utils: utils.name)(nodename)"),
    ],
)
def test_an_argument_or_a_variable_is_no_module_of_that_name(before: str, body: str) -> None:
    assert [what for verdict, what in in_the_body(body, before) if verdict == "must"] == []


def test_the_module_is_meant_where_no_variable_hides_it() -> None:
    body = "print([utils for utils in nodename], utils.execute)"
    said = in_the_body(body, "from nova import utils\n")
    assert ("must", "utils.execute") in said


def test_a_helper_of_novas_base_class_is_named_unless_it_is_here_too() -> None:
    assert in_the_body("self._get_allocation_ratios({})") == []
    assert in_the_body("self._emit_event(1)") == [("must", "self._emit_event()")]


def test_what_a_class_of_the_file_defines_is_inherited() -> None:
    text = """
    class Base(driver.ComputeDriver):
        def get_available_nodes(self):
            return self._names()

        def _names(self):
            return []

    class Mine(Base):
        def update_provider_tree(self, provider_tree, nodename, allocations=None):
            self._names()
    """
    said = [(verdict, what) for _, verdict, what in found(text)]
    assert [what for verdict, what in said if ": no " in what] == []
    assert [what for verdict, what in said if what.startswith("self.")] == []


def test_an_optional_method_that_only_raises_is_to_be_left_out() -> None:
    text = GOOD.format(body="pass") + (
        '    def set_host_enabled(self, enabled):\n        """Not."""\n'
        "        raise NotImplementedError()\n"
    )
    assert [(verdict, what) for _, verdict, what in found(text) if verdict != "fine"] == [
        ("must", "set_host_enabled()")
    ]


def test_the_helpers_are_those_that_the_base_class_has() -> None:
    private = {name for name in vars(ComputeDriver) if name.startswith("_get")}
    assert private == HELPERS
