"""From snapshots to pictures: what is folded, what is told, and how it is written."""

from __future__ import annotations

import re
from html import unescape

import pytest

from computectl.drawing.picture import (
    Box,
    BoxKind,
    Hub,
    Picture,
    picture,
    short_traits,
)
from computectl.drawing.svg import draw_dot, svg_of
from computectl.shared.errors import CommandError
from reportclient.model import SHARES_VIA_AGGREGATE, Inventory
from reportclient.snapshot import Snapshot
from reportclient.usage import Usage
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


def test_the_domain_of_a_hosts_name_is_shown_once() -> None:
    host = provider("c1.example.org")
    below = [provider(f"{name}_pf0", "c1.example.org") for name in ("c1.example.org", "c2")]
    assert titles(picture(Snapshot.build([host, *below]))) == [
        "c1.example.org",
        "c1_pf0",
        "c2_pf0",
    ]


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
    made = picture(numa_host(pfs=128), Usage(marked=marked))
    assert box(made, "host1_numa0_pf7").marked
    assert "host1_numa0_pf0 … host1_numa0_pf63  ×63" in titles(made)  # noqa: RUF001


def test_use_of_the_folded_is_summed() -> None:
    usages = {uuid_of(f"host1_numa0_pf{n}"): {"SRIOV_NET_VF": n} for n in range(3)}
    made = picture(numa_host(pfs=128), Usage(usages))
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
        "root": BoxKind.ROOT,
        "cell": BoxKind.NUMA,
        "empty cell": BoxKind.NUMA,
        "gpu": BoxKind.DEVICE,
        "bridge": BoxKind.PLAIN,
        "pool": BoxKind.SHARING,
    }


def test_what_another_service_owns_is_foreign() -> None:
    ours = provider("ours", traits=["CUSTOM_OWNER"])
    made = picture(
        Snapshot.build([ours, provider("below", "ours"), provider("other")]),
        owner=frozenset({"CUSTOM_OWNER"}),
    )
    assert [one.title for one in made.boxes if one.foreign] == ["other"]
    assert not picture(Snapshot.build([provider("other")])).boxes[0].foreign


def test_an_aggregate_of_one_provider_is_a_line_of_its_box() -> None:
    made = picture(Snapshot.build([provider("a", aggregates=[AGGREGATE])]))
    assert made.hubs == ()
    assert made.boxes[0].notes == (f"aggregate {AGGREGATE[:8]}",)


def test_terse_is_without_traits_but_tells_what_is_disabled() -> None:
    off = provider("a", traits=["COMPUTE_STATUS_DISABLED", "CUSTOM_X"])
    made = picture(Snapshot.build([off]), terse=True)
    assert (made.boxes[0].traits, made.boxes[0].disabled) == ((), True)
    assert "disabled" in draw_dot(made)


def test_large_families_of_traits_are_counted() -> None:
    flags = [f"HW_CPU_X86_F{n}" for n in range(57)]
    words = short_traits([*flags, "HW_CPU_HYPERTHREADING", "CUSTOM_B", "CUSTOM_A"])
    assert words == ["CUSTOM_A", "CUSTOM_B", "HW_CPU_HYPERTHREADING", "HW_CPU_X86_* (57)"]


def test_the_legend_has_what_is_shown_and_nothing_else() -> None:
    made = picture(numa_host(pfs=128))
    text = draw_dot(made)
    assert "sharing provider" in text
    assert "several of the same shape" in text
    assert "no inventory" not in text
    assert "foreign, not" not in text
    assert "asked for" not in text


def test_a_deep_tree_is_drawn() -> None:
    chain = [provider("p0"), *(provider(f"p{n}", f"p{n - 1}") for n in range(1, 2000))]
    assert len(picture(Snapshot.build(chain)).boxes) == 2000


def test_a_broad_picture_grows_to_the_right() -> None:
    different = [provider(f"a{n}", "a", traits=[f"CUSTOM_{n}"]) for n in range(9)]
    broad = draw_dot(picture(Snapshot.build([provider("a"), *different])))
    small = draw_dot(picture(Snapshot.build([provider("a"), *different[:2]])))
    assert ("rankdir=LR" in broad, "rankdir=TB" in small) == (True, True)


def many(count: int = 300) -> Snapshot:
    """Devices of which no two are the same."""
    devices = [
        provider(
            f"gpu{n}",
            "host",
            inventory={"VGPU": Inventory(1 + n % 4)},
            traits=["CUSTOM_GPU", f"CUSTOM_{n}"],
        )
        for n in range(count)
    ]
    return Snapshot.build([provider("host"), *devices])


def test_three_hundred_different_providers_are_an_overview() -> None:
    usages = {uuid_of("gpu7"): {"VGPU": 3}}
    made = picture(many(), Usage(usages))
    assert made.overview
    assert titles(made) == ["host", "gpu0 … gpu299  ×300"]  # noqa: RUF001
    devices = made.boxes[1]
    assert devices.amounts == ("VGPU 1 to 4 each, used 3 of 750",)
    assert (devices.traits, devices.notes) == (("CUSTOM_GPU",), ("300 different sets of traits",))
    assert "overview: " in draw_dot(made)
    assert not picture(many(40)).overview


def test_an_overview_keeps_apart_what_is_asked_for_disabled_or_of_other_classes() -> None:
    others = [
        provider("gpu300", "host", inventory={"VGPU": Inventory(1), "PGPU": Inventory(1)}),
        provider(
            "gpu301", "host", inventory={"VGPU": Inventory(1)}, traits=["COMPUTE_STATUS_DISABLED"]
        ),
    ]
    snapshot = Snapshot.build([*many().walk(), *others])
    made = picture(snapshot, Usage(marked=uuid_of("gpu5")))
    assert {"gpu5", "gpu300", "gpu301"} < set(titles(made))


def test_where_classes_differ_too_the_kinds_are_left() -> None:
    odd = [provider(f"d{n}", "host", inventory={f"CUSTOM_{n}": Inventory(1)}) for n in range(300)]
    made = picture(Snapshot.build([provider("host"), *odd]))
    assert titles(made) == ["host", "d0 … d299  ×300"]  # noqa: RUF001


def test_aggregates_of_an_overview_are_drawn_together() -> None:
    lone = [
        provider(f"h{n}", aggregates=[uuid_of(f"a{n}"), uuid_of(f"a{n + 1}")]) for n in range(99)
    ]
    made = picture(Snapshot.build(lone))
    assert len(made.boxes) == len(made.hubs) == 1
    assert made.hubs[0].title.endswith(" and 97 more")


def test_the_legend_shows_what_it_names() -> None:
    off = provider("a", traits=["COMPUTE_STATUS_DISABLED"])
    usage = Usage(marked=uuid_of("a"))
    known = picture(Snapshot.build([off]), usage, owner=frozenset({"CUSTOM_OWNER"}))
    text = draw_dot(known)
    keys = {
        row.split("</td>")[1].split(">")[-1]: row for row in text.split("<tr>") if "border:" in row
    }
    assert 'style="dashed"' in keys["dashed border: foreign, not written by this agent"]
    assert 'color="#c02020"' in keys["red border: disabled, takes no new guests"]
    assert 'border="3"' in keys["thick border: the provider asked for"]


@pytest.mark.slow
@pytest.mark.needs("dot")
def test_text_stays_in_its_box_whatever_the_font() -> None:
    named = provider("主机 with a long name" * 2, traits=["CUSTOM_MMMMMMMMMMMMMMMMMMMMMMMMMMMMMM"])
    svg = svg_of(draw_dot(picture(Snapshot.build([named, *numa_host(pfs=8).walk()]))))
    checked = 0
    for node in re.findall(r'<g id="node\d+".*?</g>', svg, re.S):
        if "<ellipse" in node:
            continue
        edges = [float(x) for x in re.findall(r"(-?[\d.]+),-?[\d.]+", re.sub(r"<text.*", "", node))]
        for anchor, middle, length in re.findall(
            r'text-anchor="(\w+)" x="([-\d.]+)".*textLength="([\d.]+)"', node
        ):
            start = float(middle) - (float(length) / 2 if anchor == "middle" else 0)
            assert min(edges) <= start and start + float(length) <= max(edges), node
            checked += 1
    assert checked > 10
    assert svg.count("<text") == svg.count("textLength=")


@pytest.mark.slow
@pytest.mark.needs("dot")
def test_an_svg_shows_all_that_a_picture_has() -> None:
    drawn = Picture(
        boxes=(
            Box(0, BoxKind.ROOT, ODD, 1, ("VCPU 8",), ("CUSTOM_A",), ("3 consumers",), marked=True),
            Box(1, BoxKind.DEVICE, "pf0 and others", 4, ("SRIOV_NET_VF 8",), disabled=True),
            Box(2, BoxKind.SHARING, "storage", 1, ("DISK_GB 1000",), foreign=True),
        ),
        edges=((0, 1),),
        hubs=(Hub("7a0e6a3c", (0, 2)),),
        overview=True,
    )
    found = re.findall(r"<text [^>]*>([^<]*)</text>", svg_of(draw_dot(drawn)))
    texts = {" ".join(unescape(text).split()) for text in found}
    for box in drawn.boxes:
        assert {box.title, *box.amounts, *box.traits, *box.notes} <= texts
    assert {"disabled", "aggregate 7a0e6a3c"} <= texts
    assert {text for _, text in drawn.legend()} <= texts


def test_without_graphviz_it_is_said_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nonexistent")
    with pytest.raises(CommandError, match="install the package graphviz"):
        svg_of("digraph {}")


@pytest.mark.slow
@pytest.mark.needs("dot")
def test_what_graphviz_complains_about_is_told() -> None:
    with pytest.raises(CommandError, match="syntax error"):
        svg_of("no graph")
