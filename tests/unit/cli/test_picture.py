"""From snapshots to pictures: what is folded, what is told, and how it is written."""

from __future__ import annotations

import shutil

import pytest

from agent.cli.beside import Beside
from agent.cli.drawing.dot import draw_dot
from agent.cli.drawing.graphviz import svg_of
from agent.cli.drawing.mermaid import draw_mermaid
from agent.cli.drawing.picture import Box, Kind, Known, Picture, picture, short_traits
from agent.cli.trouble import Trouble
from reportclient.model import SHARES_VIA_AGGREGATE, Inventory
from reportclient.snapshot import Snapshot
from tests.unit.cli.trees import AGGREGATE, numa_host, provider, uuid_of

ODD = 'a<b>&"c#1;\\n'


def titles(made: Picture) -> list[str]:
    return [box.title for box in made.boxes]


def box(made: Picture, start: str) -> Box:
    [found] = [one for one in made.boxes if one.title.startswith(start)]
    return found


def test_a_host_of_130_providers_is_a_picture_of_six_boxes() -> None:
    made = picture(numa_host(pfs=128))
    assert titles(made) == [
        "host1",
        "host1_numa0",
        "host1_numa0_pf0 … host1_numa0_pf63  ×64",  # noqa: RUF001
        "host1_numa1",
        "host1_numa1_pf0 … host1_numa1_pf63  ×64",  # noqa: RUF001
        "nfs",
    ]
    assert made.edges == ((0, 1), (1, 2), (0, 3), (3, 4))
    assert [(hub.title, hub.boxes) for hub in made.hubs] == [(AGGREGATE[:8], (0, 5))]


def test_two_of_a_shape_are_drawn_each_by_itself_and_three_are_not() -> None:
    two = Snapshot.build([provider("a"), *(provider(f"a{n}", "a") for n in range(2))])
    three = Snapshot.build([provider("a"), *(provider(f"a{n}", "a") for n in range(3))])
    assert titles(picture(two)) == ["a", "a0", "a1"]
    assert titles(picture(three)) == ["a", "a0 … a2  ×3"]  # noqa: RUF001


def test_what_is_below_the_folded_is_folded_with_them() -> None:
    hosts = [provider(f"h{n}") for n in range(12)]
    cards = [provider(f"h{n}_pf{m}", f"h{n}") for n in range(12) for m in range(2)]
    made = picture(Snapshot.build([*hosts, *cards]))
    assert titles(made) == ["h0 … h11  ×12", "h0_pf0 … h11_pf1  ×24 (2 in each)"]  # noqa: RUF001
    assert made.edges == ((0, 1),)


@pytest.mark.parametrize(
    "other",
    [
        {"traits": ["CUSTOM_X"]},
        {"aggregates": [AGGREGATE]},
        {"inventory": {"VGPU": Inventory(1)}},
    ],
)
def test_what_differs_is_not_folded(other: dict) -> None:
    same = [provider(f"a{n}", "a") for n in range(4)]
    made = picture(Snapshot.build([provider("a"), *same, provider("a4", "a", **other)]))
    assert titles(made) == ["a", "a0 … a3  ×4", "a4"]  # noqa: RUF001


def test_what_is_below_makes_a_shape_too() -> None:
    same = [provider(f"a{n}", "a") for n in range(4)]
    made = picture(Snapshot.build([provider("a"), *same, provider("below", "a2")]))
    assert titles(made) == ["a", "a0 … a3  ×3", "a2", "below"]  # noqa: RUF001


def test_the_one_that_was_asked_for_is_not_folded_away() -> None:
    marked = uuid_of("host1_numa0_pf7")
    made = picture(numa_host(pfs=128), Known(Beside(marked=marked)))
    assert box(made, "host1_numa0_pf7").marked
    assert "host1_numa0_pf0 … host1_numa0_pf63  ×63" in titles(made)  # noqa: RUF001


def test_use_of_the_folded_is_summed() -> None:
    usages = {uuid_of(f"host1_numa0_pf{n}"): {"SRIOV_NET_VF": n} for n in range(3)}
    made = picture(numa_host(pfs=128), Known(Beside(usages)))
    assert box(made, "host1_numa0_pf0").amounts == ("SRIOV_NET_VF 8 each, used 3 of 512",)
    assert box(made, "host1_numa1_pf0").amounts == ("SRIOV_NET_VF 8 each, used 0 of 512",)
    assert "VCPU 32, capacity 120, used 0" in made.boxes[1].amounts


def test_kinds_are_by_what_a_provider_has() -> None:
    made = picture(
        Snapshot.build(
            [
                provider("root"),
                provider("cell", "root", inventory={"PCPU": Inventory(4)}),
                provider("empty cell", "root", traits=["HW_NUMA_ROOT"]),
                provider("gpu", "cell", inventory={"VGPU": Inventory(4)}),
                provider("bridge", "root"),
                provider("pool", "root", traits=[SHARES_VIA_AGGREGATE]),
            ]
        )
    )
    kinds = {one.title: one.kind for one in made.boxes}
    assert kinds == {
        "root": Kind.ROOT,
        "cell": Kind.NUMA,
        "empty cell": Kind.NUMA,
        "gpu": Kind.DEVICE,
        "bridge": Kind.PLAIN,
        "pool": Kind.SHARING,
    }


def test_what_another_service_owns_is_a_strangers() -> None:
    ours = provider("ours", traits=["CUSTOM_OWNER"])
    made = picture(
        Snapshot.build([ours, provider("below", "ours"), provider("other")]),
        Known(owner=frozenset({"CUSTOM_OWNER"})),
    )
    assert [one.title for one in made.boxes if one.foreign] == ["other"]
    assert not picture(Snapshot.build([provider("other")])).has("foreign")


def test_an_aggregate_of_one_provider_is_a_line_of_its_box() -> None:
    made = picture(Snapshot.build([provider("a", aggregates=[AGGREGATE])]))
    assert made.hubs == ()
    assert made.boxes[0].notes == (f"aggregate {AGGREGATE[:8]}",)


def test_terse_is_without_traits_but_tells_what_is_disabled() -> None:
    off = provider("a", traits=["COMPUTE_STATUS_DISABLED", "CUSTOM_X"])
    made = picture(Snapshot.build([off]), Known(terse=True))
    assert (made.boxes[0].traits, made.boxes[0].disabled) == ((), True)
    assert "disabled" in draw_dot(made)
    assert "disabled" in draw_mermaid(made)


def test_large_families_of_traits_are_counted() -> None:
    flags = [f"HW_CPU_X86_F{n}" for n in range(57)]
    words = short_traits([*flags, "HW_CPU_HYPERTHREADING", "CUSTOM_B", "CUSTOM_A"])
    assert words == ["CUSTOM_A", "CUSTOM_B", "HW_CPU_HYPERTHREADING", "HW_CPU_X86_* (57)"]


def test_mermaid_has_names_with_odd_characters_as_entities() -> None:
    text = draw_mermaid(picture(Snapshot.build([provider(ODD)])))
    assert 'p0["<b>a#lt;b#gt;#amp;#quot;c#35;1;' in text


def test_the_legend_has_what_is_shown_and_nothing_else() -> None:
    made = picture(numa_host(pfs=128))
    for text in (draw_dot(made), draw_mermaid(made)):
        assert "sharing provider" in text
        assert "several of the same shape" in text
        assert "no inventory" not in text
        assert "stranger" not in text
        assert "asked for" not in text


def test_a_deep_tree_is_drawn() -> None:
    chain = [provider("p0"), *(provider(f"p{n}", f"p{n - 1}") for n in range(1, 2000))]
    assert len(picture(Snapshot.build(chain)).boxes) == 2000


def test_a_broad_picture_grows_to_the_right() -> None:
    different = [provider(f"a{n}", "a", traits=[f"CUSTOM_{n}"]) for n in range(9)]
    broad = draw_dot(picture(Snapshot.build([provider("a"), *different])))
    small = draw_dot(picture(Snapshot.build([provider("a"), *different[:2]])))
    assert ("rankdir=LR" in broad, "rankdir=TB" in small) == (True, True)


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_graphviz_takes_names_with_odd_characters() -> None:
    svg = svg_of(draw_dot(picture(Snapshot.build([provider(ODD)]))))
    assert "a&lt;b&gt;&amp;" in svg


def test_without_graphviz_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(Trouble, match="install the package graphviz, or take -f mermaid"):
        svg_of("digraph {}")


@pytest.mark.skipif(not shutil.which("dot"), reason="Graphviz is not installed")
def test_what_graphviz_complains_about_is_told() -> None:
    with pytest.raises(Trouble, match="syntax error"):
        svg_of("no graph")
