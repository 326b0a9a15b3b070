"""The pictures of the documents are what is drawn now from the trees in a real Placement."""

from __future__ import annotations

import re
from html import unescape

import pytest

from computectl.drawing.svg import draw_dot, svg_of
from tests.servers.placement import RealPlacement
from tests.spec.drawn import FOLDER, SCENES, drawn

PAGE = FOLDER.parent / "modelling.rst"
AGAIN = "tools/pictures.sh draws docs/pictures anew"


def titles_in(svg: str) -> set[str]:
    return {unescape(text).strip() for text in re.findall(r"<text [^>]*>([^<]*)</text>", svg)}


@pytest.mark.parametrize("name", SCENES)
def test_a_picture_is_what_is_drawn_now(placement_server: RealPlacement, name: str) -> None:
    picture = drawn(name, placement_server)
    assert (FOLDER / f"{name}.dot").read_text() == draw_dot(picture), AGAIN
    words = titles_in((FOLDER / f"{name}.svg").read_text())
    said = {word for box in picture.boxes for word in (box.title, *box.amounts)}
    assert {" ".join(word.split()) for word in said} <= {" ".join(w.split()) for w in words}, AGAIN


def test_every_picture_is_on_the_page() -> None:
    shown = re.findall(r"^\.\. (?:image|figure):: pictures/([\w-]+)\.svg$", PAGE.read_text(), re.M)
    assert sorted(shown) == sorted(SCENES)
    assert {file.stem for file in FOLDER.iterdir()} == set(SCENES)


@pytest.mark.needs("dot")
def test_graphviz_draws_what_is_in_the_documents() -> None:
    for name in SCENES:
        svg = svg_of((FOLDER / f"{name}.dot").read_text())
        assert titles_in(svg) == titles_in((FOLDER / f"{name}.svg").read_text()), name
