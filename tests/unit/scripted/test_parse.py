"""Reading scripts: what they say, and where exactly a bad one is wrong."""

from __future__ import annotations

from textwrap import dedent

import pytest

from driverkit.scripted.script import Span
from driverkit.scripted.script_file import ScriptError, parse
from reportclient.model import Inventory

AGG = "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01"


def read(text: str, host: str = "h1"):
    return parse(dedent(text), "demo.yaml", host)


def providers(text: str, node: str = "h1"):
    return {provider.name: provider for provider in read(text).nodes[node].providers}


def problem(text: str) -> str:
    with pytest.raises(ScriptError) as caught:
        read(text)
    return str(caught.value)


def test_the_host_is_named_by_the_agent():
    assert list(read('nodes: {"{host}": }', host="compute7").nodes) == ["compute7"]


def test_a_number_alone_is_a_total():
    found = providers("nodes: {h1: {inventory: {VCPU: 8, DISK_GB: {total: 9, reserved: 1}}}}")
    assert found["h1"].inventory == {"VCPU": Inventory(8), "DISK_GB": Inventory(9, reserved=1)}


def test_children_are_named_by_their_way_from_the_node():
    found = providers("nodes: {h1: {children: {numa0: {children: {pf0: }}}}}")
    assert list(found) == ["h1", "h1_numa0", "h1_numa0_pf0"]
    assert found["h1_numa0_pf0"].ref == "numa0/pf0"
    assert found["h1_numa0_pf0"].parent == "numa0"


def test_count_repeats_a_provider_with_all_below_it():
    found = providers(
        "nodes: {h1: {children: {'numa{n}': {count: 2, children: {'pf{n}': {count: 2}}}}}}"
    )
    assert list(found) == [
        "h1",
        *("h1_numa0", "h1_numa0_pf0", "h1_numa0_pf1"),
        *("h1_numa1", "h1_numa1_pf0", "h1_numa1_pf1"),
    ]


def test_n_reaches_the_uncounted_children_and_their_texts():
    found = providers(
        """
        nodes:
          h1:
            children:
              numa{n}:
                count: 2
                children:
                  dev: {name: "{node}-{n:02x}", traits: ["CUSTOM_{n}"]}
        """
    )
    assert found["h1-01"].traits == {"CUSTOM_1"}


def test_a_fleet_takes_one_entry():
    nodes = read("nodes: {'c{n:03}': {count: 3, uuid: \"00000000-0000-0000-0000-{n:012}\"}}").nodes
    assert list(nodes) == ["c000", "c001", "c002"]
    assert nodes["c002"].uuid == "00000000-0000-0000-0000-000000000002"


def test_keys_are_texts_whatever_yaml_makes_of_them():
    assert list(providers("nodes: {h1: {children: {0000:81:00.0: , on: , 12: }}}"))[1:] == [
        "h1_0000:81:00.0",
        "h1_on",
        "h1_12",
    ]


def test_a_sharing_provider_gets_the_trait_that_makes_it_one():
    found = providers(
        f"nodes: {{h1: {{aggregates: [{AGG}], sharing: {{nfs: {{aggregates: [{AGG}]}}}}}}}}"
    )
    assert found["h1_nfs"].sharing and found["h1_nfs"].private
    assert found["h1_nfs"].traits == {"MISC_SHARES_VIA_AGGREGATE"}


def test_a_sharing_provider_with_a_name_of_its_own_is_for_all_nodes():
    found = providers(
        f"nodes: {{h1: {{aggregates: [{AGG}], sharing: {{nfs: {{name: nfs, aggregates: [{AGG}]}}}}}}}}"
    )
    assert not found["nfs"].private


@pytest.mark.parametrize(
    ("times", "span"),
    [
        ("", Span()),
        ("after: 3", Span(3)),
        ("after: 3, for: 2", Span(3, 2)),
        ("after: 1.5s, for: 2s", Span(1.5, 2, timed=True)),
        ("for: 2, every: 10", Span(0, 2, 10)),
    ],
)
def test_times_are_periods_or_seconds(times, span):
    script = read(f"nodes: {{h1: }}\nfailures: [{{not_ready: x, {times}}}]")
    assert script.nodes["h1"].failures[0].span == span


def test_events_reach_the_nodes_that_they_name():
    script = read(
        """
        nodes: {"a{n}": {count: 2}, b: }
        changes: [{node: "a*", add_traits: ["CUSTOM_{node}"]}]
        failures: [{node: b, error: x}]
        """
    )
    nodes = script.nodes
    assert nodes["a1"].changes[0].add_traits == {"CUSTOM_a1"}
    assert [len(nodes[name].changes) for name in nodes] == [1, 1, 0]
    assert [len(nodes[name].failures) for name in nodes] == [0, 0, 1]


def test_a_change_may_speak_of_what_an_earlier_one_added():
    script = read(
        """
        nodes: {h1: }
        changes:
          - {children: {pf0: }}
          - {provider: pf0, children: {vf0: }}
          - {provider: pf0/vf0, remove: true}
        """
    )
    assert script.nodes["h1"].changes[2].removed


def test_a_bad_inventory_among_the_failures_is_left_as_bad_as_it_is():
    script = read("nodes: {h1: }\nfailures: [{inventory: {VCPU: {total: 0}, x: {total: many}}}]")
    assert script.nodes["h1"].failures[0].inventory == {
        "VCPU": {"total": 0},
        "x": {"total": "many"},
    }


def test_an_error_says_file_line_and_path():
    text = """\
        nodes:
          host1:
            inventory:
              VCPU:
                reserved: 0
                total: many
        """
    assert problem(text) == (
        "demo.yaml:6: nodes.host1.inventory.VCPU.total: has to be a whole number, not 'many'"
    )


def inside(block: str) -> str:
    """``block`` under the keys of a node, each line kept."""
    return f"nodes:\n  h1:\n    {block}"


def change(item: str) -> str:
    return f"nodes: {{h1: {{inventory: {{VGPU: 4}}, children: {{a: }}}}}}\nchanges:\n  - {item}"


def fail(item: str) -> str:
    return f"nodes: {{h1: }}\nfailures:\n  - {item}"


BAD = {
    "not yaml": ("nodes: [", "demo.yaml:1: not YAML: "),
    "a tab": ("nodes:\n\th1:", "demo.yaml:2: not YAML: found character '\\t'"),
    "a control character": ("nodes: \x07", "demo.yaml:1: not YAML: "),
    "two documents": ("nodes: {h1: }\n---\nnodes: {h2: }", "demo.yaml:2: not YAML: "),
    "empty": ("# nothing\n", "demo.yaml:1: the file is empty"),
    "a list": ("- nodes", "demo.yaml:1: has to be a mapping"),
    "no nodes": ("changes: []", "demo.yaml:1: 'nodes' is missing"),
    "unknown at top": ("node: {}", "demo.yaml:1: node: unknown key; did you mean 'nodes'?"),
    "unknown key": (
        inside("inventroy: {}"),
        "3: nodes.h1.inventroy: unknown key; did you mean 'inv",
    ),
    "a merge key alone": (inside("<<: 1"), "demo.yaml:3: not YAML: expected a mapping or list"),
    "a key twice": (
        inside("traits: []\n    traits: []"),
        "demo.yaml:4: nodes.h1.traits: is listed twice",
    ),
    "a list for a key": (
        "nodes: {{host}: }",
        "demo.yaml:1: nodes: a key has to be a text; quote '{",
    ),
    "a text for a mapping": (inside("children: a"), "3: nodes.h1.children: has to be a mapping"),
    "a text for a list": (inside("traits: A"), "3: nodes.h1.traits: has to be a list, not 'A'"),
    "a list for a text": (inside("traits: [[A]]"), "nodes.h1.traits[0]: has to be a text"),
    "an empty text": (inside("traits: ['']"), "nodes.h1.traits[0]: has to be a text"),
    "no uuid": (inside("aggregates: [rack1]"), "nodes.h1.aggregates[0]: 'rack1' is not a UUID"),
    "a fraction": (inside("inventory: {VCPU: 1.5}"), "VCPU: has to be a whole number, not '1.5'"),
    "a truth": (inside("inventory: {VCPU: yes}"), "VCPU: has to be a whole number, not 'yes'"),
    "a tag": (inside("inventory: {VCPU: !!int x}"), "VCPU: can't be read: invalid literal"),
    "no total": (inside("inventory: {VCPU: {reserved: 1}}"), "VCPU: 'total' is missing"),
    "total 0": (inside("inventory: {VCPU: 0}"), "VCPU: total is 0, it has to be from 1"),
    "reserved": (inside("inventory: {VCPU: {total: 1, reserved: 2}}"), "VCPU: reserved is 2"),
    "a ratio": (inside("inventory: {VCPU: {total: 1, allocation_ratio: x}}"), "has to be a number"),
    "a field": (
        inside("inventory: {VCPU: {totl: 1}}"),
        "VCPU.totl: unknown key; did you mean 'tota",
    ),
    "count without n": (
        inside("children: {a: {count: 2}}"),
        "a: has a count, so its name needs {n}",
    ),
    "count below 0": (inside("children: {'a{n}': {count: -1}}"), "count: can't be below 0"),
    "count too high": (inside("children: {'a{n}': {count: 999999999}}"), "too many providers"),
    "n without count": (
        inside("children: {'a{n}': }"),
        "can't fill in 'a{n}' ('n'); the known names are {host}",
    ),
    "an open brace": (inside("traits: ['A{']"), "can't fill in 'A{'"),
    "an attribute": (inside("traits: ['{host.x}']"), "can't fill in '{host.x}'"),
    "a format": (inside("traits: ['{host:d}']"), "can't fill in '{host:d}'"),
    "a node twice": (
        "nodes: {'{host}': , h1: }",
        "demo.yaml:1: nodes.h1: node 'h1' is listed twice",
    ),
    "a name twice": (
        inside("children: {a: {name: x}, b: {name: x}}"),
        "provider 'x' is listed twice",
    ),
    "a place twice": (inside("children: {'{host}': , h1: {name: x}}"), "'x' is listed twice"),
    "a sharing one alone": (inside("sharing: {nfs: }"), "nfs: needs an aggregate that the node"),
    "an alias in itself": (
        "nodes: {h1: &a {children: {b: *a}}}",
        "h1.children.b: an alias inside of itself",
    ),
    "no such node": (
        "nodes: {h1: }\nfailures: [{node: 'x*', error: y}]",
        "node: matches no node",
    ),
    "nothing changed": (change("{after: 3}"), "demo.yaml:3: changes[0]: has a time, but no change"),
    "no such provider": (change("{provider: b, remove: true}"), "provider: no provider 'b' here"),
    "the node removed": (change("{remove: true}"), "remove: a node can't be removed"),
    "not removed": (change("{provider: a, remove: no}"), "remove: has to be true"),
    "added twice": (change("{children: {a: }}"), "provider 'h1_a' is listed twice"),
    "a move to nowhere": (change("{moves: {VGPU: }}"), "moves.VGPU: needs 'to'"),
    "a move to a stranger": (change("{moves: {VGPU: {to: {b: 1}}}}"), "to.b: no provider 'b' here"),
    "a move to itself": (change("{moves: {VGPU: {to: {.: 4}}}}"), "is the present place"),
    "an odd time": (
        fail("{error: x, after: soon}"),
        "after: has to be periods (3) or seconds (3s)",
    ),
    "half a period": (
        fail("{error: x, after: 1.5}"),
        "after: has to be periods (3) or seconds (3s)",
    ),
    "two units": (fail("{error: x, after: 3, for: 3s}"), "for: has to be in the same unit"),
    "every without for": (fail("{error: x, every: 3}"), "every: needs a 'for'"),
    "for longer than every": (fail("{error: x, for: 3, every: 3}"), "every: needs a 'for'"),
    "no failure": (fail("{after: 3}"), "failures[0]: needs exactly one of not_ready, error"),
    "two failures": (fail("{error: x, sleep: 1}"), "failures[0]: needs exactly one of"),
    "a sleep backwards": (fail("{sleep: -1}"), "sleep: has to be a number of seconds"),
    "a sleep without end": (fail("{sleep: .inf}"), "sleep: has to be a number of seconds"),
}


@pytest.mark.parametrize(
    "case",
    [pytest.param(case, marks=[pytest.mark.slow] if "too high" in case else []) for case in BAD],
)
def test_a_bad_script_is_refused_with_its_place(case):
    text, expected = BAD[case]
    message = problem(text)
    assert expected in message
    assert message.startswith("demo.yaml:")


def test_very_deep_nesting_is_an_error_and_no_crash():
    deep = "nodes: {h1: " + "{children: {a: " * 2000 + "}}" * 2000 + "}"
    assert "nested too deep" in problem(deep)
