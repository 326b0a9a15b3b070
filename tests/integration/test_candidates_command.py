"""``computectl candidates`` against a real Placement."""

from pathlib import Path

import pytest

from tests.integration.agent_host import Here, one_line
from tests.integration.fleet import fleet_with_commands, host, uuid
from tests.servers.placement import RealPlacement

TWO_PORTS = """
resources: {VCPU: 2}
groups:
  _A: {resources: {SRIOV_NET_VF: 1}, required: CUSTOM_PHYSNET_0}
  _B: {resources: {SRIOV_NET_VF: 1}, required: CUSTOM_PHYSNET_1, in_tree: %s}
group_policy: isolate
""" % uuid(7)  # noqa: UP031


@pytest.fixture(scope="module")
def ctl(placement_server: RealPlacement, tmp_path_factory: pytest.TempPathFactory) -> Here:
    return fleet_with_commands(placement_server, tmp_path_factory.mktemp("ctl"))


def test_candidates_are_grouped_by_host_with_what_each_provider_gives(ctl: Here) -> None:
    said = ctl.ctl("candidates", "--resources", "VCPU=2", "--in-tree", host(7))
    assert (said.code, said.err) == (0, "")
    heading, empty, own, candidate = said.out.splitlines()
    assert heading.startswith("1 candidate on 1 host, ")
    assert own == f"{host(7)}  {uuid(7)}"
    assert (empty, candidate) == ("", f"  - {host(7)} (VCPU 2 of 248 free)")


def test_options_a_query_and_a_file_give_the_same(ctl: Here, tmp_path: Path) -> None:
    file = tmp_path / "request.yaml"
    file.write_text(TWO_PORTS)
    options = (
        "--resources VCPU=2 --group _A:SRIOV_NET_VF=1 --required_A CUSTOM_PHYSNET_0 "
        "--group _B:SRIOV_NET_VF=1 --required_B=CUSTOM_PHYSNET_1 --group-policy isolate "
        f"--in-tree_B {host(7)}"
    )
    query = (
        "resources=VCPU:2&resources_A=SRIOV_NET_VF:1&required_A=CUSTOM_PHYSNET_0"
        "&resources_B=SRIOV_NET_VF:1&required_B=CUSTOM_PHYSNET_1&group_policy=isolate"
        f"&in_tree_B={uuid(7)}"
    )
    forms = (options.split(), ["--query", query], ["--file", str(file)])
    answers = [ctl.ctl("candidates", *form, "-f", "json").json() for form in forms]
    assert answers[0] == answers[1] == answers[2]
    rows = {row["provider"]: row for row in answers[0]}
    assert set(rows) == {host(7), f"{host(7)}_pf0", f"{host(7)}_pf1"}
    assert rows[f"{host(7)}_pf1"]["resources"] == {"SRIOV_NET_VF": 1}
    assert rows[f"{host(7)}_pf1"]["groups"] == ["_B"]
    assert {row["host"] for row in answers[0]} == {host(7)}


def test_a_long_answer_is_cut_for_people_and_whole_for_programs(ctl: Here) -> None:
    drawn = ctl.ctl("candidates", "--resources", "VCPU=2")
    assert drawn.out.startswith("198 candidates on 198 hosts, 21 calls\n")
    assert drawn.out.rstrip().endswith("and 178 candidates on 178 hosts more; -f json lists all")


@pytest.mark.parametrize(
    ("words", "calls"),
    [
        (("-f", "json"), 2),
        (("-f", "value", "-c", "candidate", "-c", "host_uuid", "-c", "resources"), 1),
    ],
)
def test_names_take_one_listing_and_none_where_none_is_shown(
    ctl: Here, placement_server: RealPlacement, words: tuple[str, ...], calls: int
) -> None:
    mark = placement_server.mark()
    assert ctl.ctl("candidates", "--resources", "VCPU=1", *words).code == 0
    assert len(placement_server.since(mark)) == calls


@pytest.mark.parametrize(
    ("words", "meant"),
    [
        ("candidates --resources1 VCPU=1", "is --resources meant?"),
        ("candidates --group 1 --required HW_CPU_X86_AVX", "--required-1 TRAITS"),
        (f"candidates --resources VCPU=1 --member-of {uuid(1)},{uuid(2)}", f"in:{uuid(1)},"),
        ("candidates --resources VCPU=1 --explan", "--explain"),
        ("candidates --resources VCPU=1 host1", "unexpected argument host1"),
        ("candidates --resources VCPU=1 -f jsn", "json"),
        ("service show", "HOST"),
        ("--config-fil x tree", "--config-file"),
    ],
)
def test_a_wrong_option_is_one_line_with_the_spelling_that_was_meant(
    ctl: Here, words: str, meant: str
) -> None:
    assert meant in one_line(ctl.ctl(*words.split()), 2)


@pytest.mark.parametrize(
    "words",
    [
        f"candidates --resources VCPU=1 --in-tree {host(1)} --in-tree {host(2)}",
        "candidates --query resources=VCPU:1 --query resources=VCPU:2",
        "candidates --resources VCPU=1 --limit 1 --limit 2",
    ],
)
def test_what_can_be_said_once_is_not_said_twice(ctl: Here, words: str) -> None:
    err = one_line(ctl.ctl(*words.split()), 2)
    assert "can't be combined" in err or "is given 2 times" in err


def test_what_is_asked_of_the_root_twice_has_to_hold_at_once(ctl: Here) -> None:
    words = ("candidates", "--resources", "VCPU=1", "--in-tree", host(7))
    two = ("--root-required", "HW_CPU_X86_AVX2", "--root-required", "!HW_CPU_X86_AVX2")
    assert "Conflicting required and forbidden" in one_line(ctl.ctl(*words, *two), 2)
    two = ("--root-required", "CUSTOM_PHYSNET_0", "--root-required", "HW_CPU_X86_AVX2")
    assert ctl.ctl(*words, *two).code == 1
    assert ctl.ctl(*words, "--root-required", "HW_CPU_X86_AVX2").code == 0


def test_disabled_hosts_show_only_where_they_are_asked_for(ctl: Here) -> None:
    options = ("candidates", "--resources", "VCPU=2", "--in-tree", host(199))
    said = ctl.ctl(*options)
    assert "--explain" in one_line(said, 1, out=True)
    assert host(199) in ctl.ctl(*options, "--include-disabled").out


def test_an_explanation_is_a_row_for_each_constraint_to_programs(ctl: Here) -> None:
    said = ctl.ctl("candidates", "--resources", "VCPU=249", "--explain", "-f", "json")
    assert (said.code, said.err) == (1, "")
    assert said.json() == [
        {
            "constraint": "resources=VCPU:249",
            "excludes_first": 200,
            "hosts_without": None,
            "largest": 248,
            "units": {},
        },
        {
            "constraint": "root_required=!COMPUTE_STATUS_DISABLED",
            "excludes_first": 0,
            "hosts_without": 0,
            "largest": None,
            "units": {},
        },
    ]


def test_disabled_hosts_that_are_asked_for_are_no_constraint(ctl: Here) -> None:
    words = ("candidates", "--resources", "VCPU=1", "--explain", "--include-disabled")
    assert "\nhosts with candidates: 200 of 200\n" in ctl.ctl(*words).out


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--resources VCPU=0", "Requested resource VCPU requires amount >= 1. Got: 0."),
        ("--resources VCPU=1 --query resources=VCPU:1", "--query and --resources"),
        ("--required-A X --query resources=VCPU:1", "--query and --required-A"),
        ("--file /nonexistent/request.yaml", "/nonexistent/request.yaml: No such file"),
        ("--resources VCPU=1 --required CUSTOM_PHYSNET_00", "is CUSTOM_PHYSNET_0 meant?"),
        ("--resources VCPU=1 --in-tree nobody", "nobody"),
        ("--resources VCPU=1 --required COMPUTE_STATUS_DISABLED", "--include-disabled"),
    ],
)
def test_what_can_not_be_asked_is_one_line(ctl: Here, words: str, named: str) -> None:
    assert named in one_line(ctl.ctl("candidates", *words.split()), 2)


def test_a_url_that_is_too_long_is_said_in_one_short_line(ctl: Here) -> None:
    words = ("candidates", "--resources", "VCPU=1", "--member-of", aggregates(9999))
    err = one_line(ctl.ctl(*words), 2)
    assert "the URL is too long (3" in err
    assert len(err) < 500


def test_a_long_constraint_is_cut_for_people_and_whole_for_programs(ctl: Here) -> None:
    words = ("candidates", "--resources", "VCPU=1", "--member-of", aggregates(100), "--explain")
    assert max(map(len, ctl.ctl(*words).out.splitlines())) < 120
    assert len(ctl.ctl(*words, "-f", "json").json()[1]["constraint"]) > 3600


def aggregates(count: int) -> str:
    return "in:" + ",".join(uuid(number) for number in range(count))
