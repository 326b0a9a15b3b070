"""Reading scripts: what they say, and where exactly a bad one is wrong."""

from __future__ import annotations

from textwrap import dedent

import pytest

from driverkit.scripted.script import ScriptError, parse

AGG = "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01"


def read(text: str, host: str = "h1"):
    return parse(dedent(text), "demo.yaml", host)


def nodes_of(text: str, host: str = "h1"):
    return read(text, host).at(0).nodes


def providers(text: str, node: str = "h1"):
    return {provider.name: provider for provider in nodes_of(text)[node].providers}


def problem(text: str) -> str:
    with pytest.raises(ScriptError) as caught:
        read(text)
    return str(caught.value)


def test_the_host_is_named_by_the_agent():
    assert list(nodes_of('nodes: {"{host}": }', host="compute7")) == ["compute7"]


def test_a_number_alone_is_a_total():
    found = providers("nodes: {h1: {inventory: {VCPU: 8, DISK_GB: {total: 9, reserved: 1}}}}")
    disk = {"total": 9, "reserved": 1}
    assert found["h1"].inventory == {"VCPU": {"total": 8}, "DISK_GB": disk}


def test_children_are_named_by_their_way_from_the_node():
    found = providers("nodes: {h1: {children: {numa0: {children: {pf0: }}}}}")
    assert list(found) == ["h1", "h1_numa0", "h1_numa0_pf0"]
    assert found["h1_numa0_pf0"].parent == "h1_numa0"


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
                  "dev{n:02x}": {traits: ["CUSTOM_{n}"]}
        """
    )
    assert found["h1_numa1_dev01"].traits == {"CUSTOM_1"}


def test_a_fleet_takes_one_entry():
    nodes = nodes_of("nodes: {'c{n:03}': {count: 3, uuid: \"00000000-0000-0000-0000-{n:012}\"}}")
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
    assert found["h1_nfs"].parent is None and found["h1_nfs"].private
    assert found["h1_nfs"].traits == {"MISC_SHARES_VIA_AGGREGATE"}


def test_a_sharing_provider_with_a_name_of_its_own_is_for_all_nodes():
    found = providers(
        f"nodes: {{h1: {{aggregates: [{AGG}], sharing: {{nfs: {{name: nfs, aggregates: [{AGG}]}}}}}}}}"
    )
    assert not found["nfs"].private


def test_a_state_lasts_until_the_next_one_begins():
    script = read(
        """
        - nodes: {a: }
        - {after: 3, not_ready: busy}
        - {after: 4, nodes: {b: }, sleep: 1.5, error: a bug}
        """
    )
    assert [script.at(period).after for period in (0, 2, 3, 4, 99)] == [0, 0, 3, 4, 4]
    assert (list(script.at(3).nodes), script.at(3).not_ready) == (["a"], "busy")
    last = script.at(4)
    assert (list(last.nodes), last.not_ready, last.error, last.sleep) == (["b"], None, "a bug", 1.5)


def test_values_out_of_range_are_left_to_the_agent():
    found = providers("nodes: {h1: {inventory: {VCPU: 0, DISK_GB: {total: 1, reserved: 2}}}}")
    assert found["h1"].inventory["VCPU"] == {"total": 0}


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


def later(state: str) -> str:
    return f"- nodes: {{h1: }}\n- {state}"


BAD = {
    "not yaml": ("nodes: [", "demo.yaml:1: not YAML: "),
    "a tab": ("nodes:\n\th1:", "demo.yaml:2: not YAML: found character '\\t'"),
    "a control character": ("nodes: \x07", "demo.yaml:1: not YAML: "),
    "two documents": ("nodes: {h1: }\n---\nnodes: {h2: }", "demo.yaml:2: not YAML: "),
    "empty": ("# nothing\n", "demo.yaml:1: the file is empty"),
    "a list of texts": ("- nodes", "demo.yaml:1: [0]: has to be a mapping"),
    "an empty list": ("[]", "demo.yaml:1: has no state"),
    "no nodes": ("sleep: 1", "demo.yaml:1: 'nodes' is missing"),
    "both ends": (
        "nodes: {h1: }\nnot_ready: a\nerror: b",
        "demo.yaml:1: can have not_ready or error, not both",
    ),
    "after a state without nodes": (
        "- nodes: {}\n- after: 1\n  nodes: {h1: }",
        "demo.yaml:2: [1]: is never reached: the state before it has no nodes",
    ),
    "a class that nobody gets": (inside("moves: [VGPUU]"), "no provider has VGPUU in this state"),
    "unknown at top": ("node: {}", "demo.yaml:1: node: unknown key; is nodes meant?"),
    "unknown key": (
        inside("inventroy: {}"),
        "3: nodes.h1.inventroy: unknown key; is inv",
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
    "a ratio": (inside("inventory: {VCPU: {total: 1, allocation_ratio: x}}"), "has to be a number"),
    "a field": (
        inside("inventory: {VCPU: {totl: 1}}"),
        "VCPU.totl: unknown key; is tota",
    ),
    "count without n": (
        inside("children: {a: {count: 2}}"),
        "a: has a count, so its name needs {n}",
    ),
    "count below 0": (inside("children: {'a{n}': {count: -1}}"), "count: can't be below 0"),
    "count too high": (
        inside("children: {'a{n}': {count: 999999999}}"),
        "nodes: more than 200000 providers",
    ),
    "counts of counts": (
        inside("children: {'a{n}': {count: 999, children: {'b{n}': {count: 999}}}}"),
        "nodes: more than 200000 providers",
    ),
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
    "a provider twice": (
        inside("children: {'{host}': , h1: }"),
        "provider 'h1_h1' is listed twice",
    ),
    "a sharing one alone": (inside("sharing: {nfs: }"), "nfs: needs an aggregate that the node"),
    "an alias in itself": (
        "nodes: {h1: &a {children: {b: *a}}}",
        "h1.children.b: an alias inside of itself",
    ),
    "a first state that begins later": (
        "{nodes: {h1: }, after: 1}",
        "after: the first state begins",
    ),
    "a second state without a time": (later("{sleep: 1}"), "[1]: needs an 'after' above 0"),
    "a state that begins earlier": (later("{after: 0}"), "[1].after: needs an 'after' above 0"),
    "a time in words": (later("{after: soon}"), "[1].after: has to be a whole number"),
    "a sleep backwards": (later("{after: 1, sleep: -1}"), "sleep: has to be a number of seconds"),
    "a sleep without end": (later("{after: 1, sleep: .inf}"), "sleep: has to be a number of"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_script_is_refused_with_its_place(case):
    text, expected = BAD[case]
    message = problem(text)
    assert expected in message
    assert message.startswith("demo.yaml:")


def test_very_deep_nesting_is_an_error_and_no_crash():
    deep = "nodes: {h1: " + "{children: {a: " * 2000 + "}}" * 2000 + "}"
    assert "nested too deep" in problem(deep)
