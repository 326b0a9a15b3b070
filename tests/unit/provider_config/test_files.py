"""What is wrong with provider files is said with file, line and path; what is not, is read."""

import json
import logging
import os
from pathlib import Path

import jsonschema
import pytest

from agent import config
from agent.opts import PROVIDER_CONFIG_LOCATION
from agent.provider_config.entries import MOST_VALUES, Entries, parse_files, published
from agent.provider_config.files import ProviderFiles, read_files
from drivers.errors import BadFile
from reportclient.model import MAX_INT, Inventory

HEAD = "meta: {schema_version: '1.0'}\n"
UUID = "5213B75D-9260-42A6-B236-F39B0FD10561"
FULL = f"""\
meta:
  schema_version: '1.0'
providers:
  - identification:
      name: host1_dev1
    inventories:
      additional:
        - CUSTOM_SLOT:
            total: 100
            reserved: 2
            min_unit: 1
            max_unit: 10
            step_size: 5
            allocation_ratio: 2
          CUSTOM_PORT: {{total: 8.0}}
    traits:
      additional:
        - 'CUSTOM_FAST'
        - CUSTOM_NEAR
  - identification:
      uuid: {UUID}
    traits: {{additional: [CUSTOM_FAST]}}
  - identification: {{uuid: $COMPUTE_NODE}}
    traits: {{additional: [CUSTOM_ANY]}}
"""


def wrong(text: str) -> list[str]:
    with pytest.raises(BadFile) as caught:
        parse_files([("a.yaml", text)])
    return [str(diagnostic) for diagnostic in caught.value.diagnostics]


@pytest.mark.parametrize("by", ["uuid", "name"])
def test_the_compute_node_is_each_root_also_where_it_stands_as_a_name(by: str) -> None:
    """As in the example of Nova's page on provider files."""
    text = entry("traits: {additional: [CUSTOM_A]}", f"{by}: $COMPUTE_NODE")
    found = parse_files([("a.yaml", text)])
    assert found.explicit == () and found.default is not None
    assert found.default.traits == {"CUSTOM_A"}


def entry(body: str, whom: str = "name: x") -> str:
    return f"{HEAD}providers:\n- identification: {{{whom}}}\n  {body}\n"


# -- what is read


def test_everything_that_the_schema_has_is_read() -> None:
    found = parse_files([("a.yaml", FULL)])
    one, two = found.explicit
    assert (one.key, one.place) == (("name", "host1_dev1"), "a.yaml:4")
    assert one.traits == {"CUSTOM_FAST", "CUSTOM_NEAR"}
    assert one.inventory == {
        "CUSTOM_SLOT": Inventory(100, 2, 1, 10, 5, 2.0),
        "CUSTOM_PORT": Inventory(8, 0, 1, MAX_INT, 1, 1.0),
    }
    assert one.places == {"CUSTOM_SLOT": "a.yaml:8", "CUSTOM_PORT": "a.yaml:15"}
    assert two.key == ("uuid", UUID.lower())
    assert found.default is not None
    assert found.default.traits == {"CUSTOM_ANY"}
    assert found.warnings == ()


def test_aliases_and_merged_keys_are_yaml_too() -> None:
    text = (
        f"{HEAD}providers:\n"
        "- identification: {name: x}\n"
        "  inventories: &both {additional: [{CUSTOM_A: &much {total: 8, max_unit: 2}}]}\n"
        "- identification: {name: y}\n"
        "  inventories: *both\n"
        "- identification: {name: z}\n"
        "  inventories: {additional: [{CUSTOM_B: {<<: *much, total: 9}}]}\n"
    )
    x, y, z = parse_files([("a.yaml", text)]).explicit
    assert x.inventory == y.inventory
    assert z.inventory["CUSTOM_B"] == Inventory(9, 0, 1, 2, 1, 1.0)


def test_files_are_read_in_the_order_of_their_names_and_only_yaml_ones(tmp_path: Path) -> None:
    for name in ("b.yaml", "a.yaml", "c.yml", ".d.yaml", "e.yaml~"):
        trait = f"traits: {{additional: [CUSTOM_{name[0].upper()}]}}"
        (tmp_path / name).write_text(entry(trait, f"name: {name[0]}"))
    found = read_files(tmp_path, required=True)
    assert [Path(name).name for name, _ in found.files] == ["a.yaml", "b.yaml"]


def test_a_file_that_somebody_may_think_is_read_gets_a_warning(tmp_path: Path) -> None:
    (tmp_path / "c.yml").write_text("")
    files = ProviderFiles.from_location(tmp_path, tmp_path / "state")
    files.load_files()
    assert [str(one) for one in files.entries.warnings] == [
        f"{tmp_path}/c.yml:1: is ignored: only *.yaml files are read"
    ]


def test_the_place_of_the_files_is_an_option(tmp_path: Path) -> None:
    conf = tmp_path / "agent.conf"
    conf.write_text("[compute]\nprovider_config_location = /srv/providers/\n")
    found = config.settings(config.load_config(["--config-file", str(conf)]))
    assert found.provider_config == Path("/srv/providers")
    conf.write_text("")
    found = config.settings(config.load_config(["--config-file", str(conf)]))
    assert str(found.provider_config) == PROVIDER_CONFIG_LOCATION


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            FULL.replace("'1.0'", "'1.7'").replace("providers:", "racks: [7]\nproviders:"),
            [
                "a.yaml:2: meta.schema_version: is 1.7, newer than 1.0: unknown keys are ignored",
                "a.yaml:3: racks: unknown key: ignored",
            ],
        ),
        (f"{HEAD}racks: [7]\n", ["a.yaml:2: racks: unknown key: ignored"]),
        (
            entry("traits: {}"),
            ["a.yaml:3: providers[0]: adds neither inventory nor traits: ignored"],
        ),
        (HEAD, []),
        (
            FULL.replace("'1.0'", "'1.0'\n  author: me"),
            ["a.yaml:3: meta.author: unknown key: ignored"],
        ),
    ],
)
def test_what_should_be_known_is_a_warning(text: str, said: list[str]) -> None:
    assert list(map(str, parse_files([("a.yaml", text)]).warnings)) == said


def test_a_likely_slip_in_a_newer_minor_version_may_be_a_new_key() -> None:
    text = entry("trait: {additional: [CUSTOM_A]}").replace("1.0", "1.3")
    assert "unknown key; is traits meant?" in str(parse_files([("a.yaml", text)]).warnings[2])


# -- what is refused

SLOT, WHOLE = (
    ":4: providers[0].inventories.additional[0]",
    "has to be a whole number from 1 to 2147483647",
)


def slot(record: str, name: str = "CUSTOM_A") -> str:
    """A file with one class."""
    return entry(f"inventories: {{additional: [{{{name}: {{{record}}}}}]}}")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", ":1: the file is empty; give it a meta.schema_version, or remove it"),
        ("# nothing\n", ":1: the file is empty; give it a meta.schema_version, or remove it"),
        ("meta: [\n", ":2: not YAML: expected the node content, but found '<stream end>'"),
        ("meta: {}\n---\nmeta: {}\n", ":2: not YAML: but found another document"),
        (
            "a: \x07\n",
            ":1: not YAML: unacceptable character #x0007: special characters are not allowed",
        ),
        ("- 1\n", ":1: has to be a mapping with 'meta' and 'providers', not a list"),
        ("providers: []\n", ":1: 'meta' is missing"),
        ("meta: {}\n", ":1: meta: 'schema_version' is missing"),
        (
            "meta:\n  schema_version: 1.0\n",
            ":2: meta.schema_version: has to be a version in quotes, such as '1.0', not 1.0",
        ),
        (
            "meta:\n  schema_version: '2.0'\n",
            ":2: meta.schema_version: is 2.0; this agent reads 1.x: write the file as 1.x, or upgrade the agent",
        ),
        (
            "meta:\n  schema_version: one\n",
            ":2: meta.schema_version: has to be a version in quotes, such as '1.0', not 'one'",
        ),
        (f"{HEAD}__source_file: x\n", ":2: __source_file: is reserved, and can't be set"),
        (f"{HEAD}provider: []\n", ":2: provider: unknown key; is providers meant?"),
        (f"{HEAD}providers:\n", ":2: providers: has to be a list of providers, not nothing"),
        (
            f"{HEAD}providers:\n- traits: {{additional: [CUSTOM_A]}}\n",
            ":3: providers[0]: 'identification' is missing",
        ),
        (
            entry("trait: {additional: [CUSTOM_A]}"),
            ":4: providers[0].trait: unknown key; is traits meant?",
        ),
        (
            entry("traits: {additonal: [CUSTOM_A]}"),
            ":4: providers[0].traits.additonal: unknown key; is additional meant?",
        ),
        (
            entry("traits: {additional: CUSTOM_A}"),
            ":4: providers[0].traits.additional: has to be a list of traits, not 'CUSTOM_A'",
        ),
        (
            entry("traits:\n    additional:\n    - CUSTOM_A\n    - HW_CPU_X86_AVX"),
            ":7: providers[0].traits.additional[1]: has to be a custom trait: CUSTOM_ and then "
            "A-Z, 0-9 and _, at most 255 characters, not 'HW_CPU_X86_AVX'",
        ),
        (
            slot("total: 1", "VCPU"),
            f"{SLOT}.VCPU: has to be a custom resource class: CUSTOM_ and then A-Z, 0-9 and _, "
            "at most 255 characters",
        ),
        (slot("reserved: 1"), f"{SLOT}.CUSTOM_A: 'total' is missing"),
        (slot("total: 0"), f"{SLOT}.CUSTOM_A.total: {WHOLE}, not 0"),
        (slot("total: true"), f"{SLOT}.CUSTOM_A.total: {WHOLE}, not true"),
        (
            slot("total: 4, reserved: 5"),
            f"{SLOT}.CUSTOM_A: reserved is 5, it has to be from 0 to the total, 4",
        ),
        (
            slot("total: 4, allocation_ratio: .nan"),
            f"{SLOT}.CUSTOM_A: allocation_ratio is nan, it has to be above 0 and at most 3.40282e+38",
        ),
        (
            slot("total: 4, size: 5"),
            f"{SLOT}.CUSTOM_A.size: unknown key; known are allocation_ratio, max_unit, min_unit, "
            "reserved, step_size, total",
        ),
        (
            slot("total: 1}}, {CUSTOM_A: {total: 2"),
            f"{SLOT[:-2]}1].CUSTOM_A: is listed twice, first at a.yaml:4",
        ),
        (
            entry("traits: {}", whom="uuid: 1234"),
            ":3: providers[0].identification.uuid: has to be the UUID of a provider, or "
            "$COMPUTE_NODE, not 1234",
        ),
        (
            entry("traits: {}", whom=f"uuid: {UUID}, name: x"),
            ":3: providers[0].identification: has to be a mapping with one of 'uuid' and 'name', "
            "not a mapping with name and uuid",
        ),
        (
            entry("traits: {}", whom=""),
            ":3: providers[0].identification: has to be a mapping with one of 'uuid' and 'name', "
            "not an empty mapping",
        ),
        (
            entry("traits: {}", whom="host: x"),
            ":3: providers[0].identification.host: unknown key; known are name, uuid",
        ),
        (
            entry("traits: {}\n  traits: {}"),
            ":5: providers[0].traits: is listed twice, first in line 4",
        ),
        (entry("? [a, b]\n  : 1"), ":4: providers[0]: a key has to be a text; quote '{…}'"),
        ("meta: &m {x: *m}\n", ":1: meta.x: an alias inside of itself"),
        ("meta: !own 1\n", ":1: not YAML: could not determine a constructor for the tag '!own'"),
        ("meta: !!timestamp 2020-13-45\n", ":1: meta: can't be read: month must be in 1..12"),
    ],
)
def test_it_is_refused_with_its_place(text: str, said: str) -> None:
    assert f"a.yaml{said}" in wrong(text)


def test_all_that_is_wrong_is_said_at_once_in_the_order_of_the_file() -> None:
    found = wrong(entry("traits: {additional: [a]}") + "- {}\nprovider: 1\n")
    assert [one.split(":")[1] for one in found] == ["4", "5", "6"]


def test_aliases_of_aliases_do_not_eat_the_memory() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 10)]
    assert f"more than {MOST_VALUES} values" in wrong("\n".join(lines))[0]


@pytest.mark.slow
def test_what_is_nested_too_deep_is_refused() -> None:
    assert wrong("meta: " + "[" * 5000) == ["a.yaml:1: nested too deep"]


@pytest.mark.parametrize(
    ("one", "other", "what"),
    [
        ("name: x", "name: x", "name x"),
        (f"uuid: {UUID}", f"uuid: {UUID.lower()}", f"uuid {UUID.lower()}"),
        ("uuid: $COMPUTE_NODE", "uuid: $COMPUTE_NODE", "uuid $COMPUTE_NODE"),
    ],
)
def test_a_provider_that_two_files_describe_is_told_with_both(
    one: str, other: str, what: str
) -> None:
    trait = "traits: {additional: [CUSTOM_A]}"
    with pytest.raises(BadFile) as caught:
        parse_files([("a.yaml", entry(trait, one)), ("b.yaml", entry(trait, other))])
    assert str(caught.value) == (
        f"b.yaml:3: the provider with the {what} is described in a.yaml:3 already; "
        "merge the two entries"
    )


def test_an_entry_that_adds_nothing_is_no_second_description() -> None:
    trait = "traits: {additional: [CUSTOM_A]}"
    found = parse_files([("a.yaml", entry("traits: {}")), ("b.yaml", entry(trait))])
    assert len(found.explicit) == 1


def test_bad_files_name_the_first_thing_and_count_the_rest() -> None:
    with pytest.raises(BadFile) as caught:
        parse_files([("a.yaml", "meta: 1\n"), ("b.yaml", "x: 1\n")])
    assert str(caught.value).startswith("a.yaml:1: meta: has to be a mapping")
    assert str(caught.value).endswith(" (and 1 more)")


# -- files and directories


def test_only_the_default_directory_may_be_missing(tmp_path: Path) -> None:
    missing = tmp_path / "nothing"
    assert read_files(missing, required=False) == Entries()
    with pytest.raises(BadFile, match=f"{missing}:1: can't be read: No such file or directory"):
        read_files(missing, required=True)
    assert ProviderFiles.from_location(missing, tmp_path).required
    assert not ProviderFiles.from_location(Path(PROVIDER_CONFIG_LOCATION), tmp_path).required


def test_what_can_not_be_read_is_named_with_all_else(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").mkdir()
    (tmp_path / "b.yaml").symlink_to(tmp_path / "gone")
    (tmp_path / "c.yaml").write_bytes(b"meta:\n  x: \xff\n")
    os.mkfifo(tmp_path / "d.yaml")  # nobody will ever write to it
    with pytest.raises(BadFile) as caught:
        read_files(tmp_path, required=True)
    assert [str(one).removeprefix(f"{tmp_path}/") for one in caught.value.diagnostics] == [
        "a.yaml:1: can't be read: Is a directory",
        "b.yaml:1: can't be read: No such file or directory",
        "c.yaml:2: not UTF-8",
        "d.yaml:1: can't be read: is not a regular file",
    ]


def test_what_was_kept_and_is_damaged_is_not_believed(tmp_path, caplog) -> None:
    files = tmp_path / "files"
    files.mkdir()
    (files / "a.yaml").write_text(FULL)
    ProviderFiles.from_location(files, tmp_path).load_files()
    kept = tmp_path / "provider-config.json"
    assert kept.stat().st_size > len(FULL)
    (files / "a.yaml").write_text("- no\n")
    for damaged in (b"", b"{}\n", b'{"version": 9}\n', kept.read_bytes()[:-3], b"[1]\n[2]\n"):
        kept.write_bytes(damaged)
        found = ProviderFiles.from_location(files, tmp_path)
        found.load_files()
        assert found.entries is None
    assert caplog.text.count("The saved copy of the last valid provider files can't be used") == 5


def test_who_only_looks_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "a.yaml").write_text(FULL)
    additions = ProviderFiles.from_location(tmp_path / "files", tmp_path / "state", writing=False)
    additions.load_files()
    assert len(additions.entries.all()) == 3
    assert os.listdir(tmp_path) == ["files"]


def test_files_in_use_are_told_when_they_change_and_not_again(tmp_path, caplog) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "a.yaml").write_text(FULL)
    (tmp_path / "state").mkdir()
    files = ProviderFiles.from_location(tmp_path, tmp_path / "state")
    files.load_files()
    files.read()
    assert caplog.text.count(f"Provider files in use: 1 in {tmp_path}, 3 entries") == 1
    (tmp_path / "a.yaml").unlink()
    files.read()
    assert f"Provider files in use: 0 in {tmp_path}, 0 entries" in caplog.text
    (tmp_path / "a.yaml").write_text("no provider file")
    again = ProviderFiles.from_location(tmp_path, tmp_path / "state")
    again.load_files()
    assert again.diagnostics and again.entries == Entries()


# -- the schema


def test_the_schema_is_one_and_takes_the_full_example() -> None:
    schema = json.loads(published())
    jsonschema.Draft202012Validator.check_schema(schema)
    assert schema["properties"]["meta"]["required"] == ["schema_version"]


def test_every_part_of_the_schema_says_what_it_wants() -> None:
    def lacking(part, where):
        if isinstance(part, dict):
            if "type" in part and not part.get("description"):
                yield where
            for key, inner in part.items():
                yield from lacking(inner, f"{where}.{key}")

    assert list(lacking(json.loads(published()), "")) == []
