"""Reading scripts: what they say, and where exactly a bad one is wrong."""

import re
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from driverkit.scripted.script import NODE_KEYS, SHARING_KEYS, Node, ScriptError, parse

AGG = "6f1c2b1e-3c55-4b0e-9a39-5d0f6f6b7a01"
HERE = Path(__file__).parents[3]
PAGE = (HERE / "docs" / "fake-driver.rst").read_text()


def read(text: str, host: str = "h1") -> dict[str, Node]:
    return parse(dedent(text), "demo.yaml", host)


def problem(text: str) -> str:
    with pytest.raises(ScriptError) as caught:
        read(text)
    return str(caught.value)


def test_the_host_is_named_by_the_agent():
    assert list(read('nodes: {"{host}": , h2: }', host="compute7")) == ["compute7", "h2"]


def test_devices_are_named_by_their_path_and_a_number_is_a_total():
    text = """
        nodes:
          h1:
            inventory: {VCPU: 8, DISK_GB: {total: 9, reserved: 1}}
            children:
              numa0: {children: {0000:81:00.0: {inventory: {VGPU: 0}}, on: }}
    """
    host, cell, card, on = read(text)["h1"].devices
    assert host.inventory == {"VCPU": 8, "DISK_GB": {"total": 9, "reserved": 1}}
    assert (cell.name, card.name, on.name) == ("numa0", "numa0_0000:81:00.0", "numa0_on")
    assert (cell.parent, card.parent) == (None, "numa0")
    assert card.inventory == {"VGPU": 0}  # left to the agent, which refuses it


def test_a_sharing_provider_has_the_nodes_name_or_one_of_its_own():
    text = f"nodes: {{h1: {{sharing: {{a: {{aggregates: [{AGG}]}}, b: {{name: nfs, aggregates: [{AGG}]}}}}}}}}"
    _, first, second = read(text)["h1"].devices
    assert (first.name, second.name) == ("h1_a", "nfs")
    assert first.sharing and first.aggregates == [AGG]


def inside(block: str) -> str:
    """``block`` under the keys of a node, each line kept."""
    return f"nodes:\n  h1:\n    {block}"


BAD = {
    "not yaml": ("nodes: [", "demo.yaml:1: not YAML: "),
    "a tab": ("nodes:\n\th1:", "demo.yaml:2: not YAML: found character '\\t'"),
    "two documents": ("nodes: {h1: }\n---\nnodes: {h2: }", "demo.yaml:2: not YAML: "),
    "empty": ("# nothing\n", "demo.yaml:1: the file is empty"),
    "a list": ("- nodes", "demo.yaml:1: has to be a mapping"),
    "no nodes": ("nodes: {}", "demo.yaml:1: 'nodes' is missing or empty"),
    "unknown at top": ("node: {}", "demo.yaml:1: node: unknown key; is nodes meant?"),
    "unknown key": (inside("inventroy: {}"), "3: nodes.h1.inventroy: unknown key; is inv"),
    "a key twice": (
        inside("traits: []\n    traits: []"),
        "demo.yaml:4: nodes.h1.traits: is listed twice",
    ),
    "a list for a key": (
        "nodes: {{host}: }",
        "demo.yaml:1: nodes: a key has to be a text; quote '{",
    ),
    "a node twice": ("nodes: {'{host}': , h1: }", "nodes.h1: is listed twice, once as {host}"),
    "a text for a mapping": (inside("children: a"), "3: nodes.h1.children: has to be a mapping"),
    "a text for a list": (inside("traits: A"), "3: nodes.h1.traits: has to be a list, not 'A'"),
    "a list for a text": (inside("traits: [[A]]"), "nodes.h1.traits[0]: has to be a text"),
    "no uuid": (inside("aggregates: [rack1]"), "nodes.h1.aggregates[0]: 'rack1' is not a UUID"),
    "a fraction": (inside("inventory: {VCPU: 1.5}"), "VCPU: has to be a whole number, not '1.5'"),
    "a truth": (inside("inventory: {VCPU: yes}"), "VCPU: has to be a whole number, not 'yes'"),
    "a tag": (inside("inventory: {VCPU: !!int x}"), "VCPU: can't be read: invalid literal"),
    "no total": (inside("inventory: {VCPU: {reserved: 1}}"), "VCPU: 'total' is missing"),
    "a ratio": (inside("inventory: {VCPU: {total: 1, allocation_ratio: x}}"), "has to be a number"),
    "a field": (inside("inventory: {VCPU: {totl: 1}}"), "VCPU.totl: unknown key; is tota"),
    "a sharing one alone": (inside("sharing: {nfs: }"), "nfs: needs 'aggregates', which the node"),
    "an alias in itself": (
        "nodes: {h1: &a {children: {b: *a}}}",
        "h1.children.b: an alias inside of itself",
    ),
    "deep": ("nodes: {h1: " + "{children: {a: " * 2000 + "}}" * 2000 + "}", "nested too deep"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_script_is_refused_with_its_place(case):
    text, expected = BAD[case]
    message = problem(text)
    assert expected in message
    assert message.startswith("demo.yaml:")


# -- the scripts that are shipped, and those on the page


def snippets() -> Iterator[str]:
    for match in re.finditer(
        r"^\.\. code-block:: yaml\n\n((?:(?: {4}.*)?\n)+)", PAGE, re.MULTILINE
    ):
        yield dedent(match[1])


def test_the_script_on_the_page_is_valid_and_shows_each_key():
    (shown,) = snippets()
    assert parse(shown, "fake-driver.rst", "h1")
    for key in NODE_KEYS | SHARING_KEYS:
        assert re.search(rf"^``.*\b{key}\b.*``|``{key}``", PAGE, re.MULTILINE), key
        assert re.search(rf"\b{key}:", shown), key
