"""The pictures of the documents have what a real Placement has of the specifications' trees."""

import re
from html import unescape

import pytest

from tests.servers.placement import RealPlacement
from tests.spec.drawn import FOLDER, SCENES, drawn

PAGE = FOLDER.parent / "modelling.rst"


@pytest.mark.parametrize("name", SCENES)
def test_a_picture_has_the_boxes_of_its_tree(placement_server: RealPlacement, name: str) -> None:
    labels = re.findall(r'label="(.*)"\]', drawn(name, placement_server))
    lines = {line for label in labels for line in re.split(r"\\[ln]", label) if line}
    texts = re.findall(r"<text [^>]*>([^<]*)</text>", (FOLDER / f"{name}.svg").read_text())
    assert lines == {unescape(text).replace("\xa0", " ") for text in texts}, "run tools/pictures.sh"


def test_every_picture_is_on_the_page() -> None:
    shown = re.findall(r"^\.\. (?:image|figure):: pictures/([\w-]+)\.svg$", PAGE.read_text(), re.M)
    assert sorted(shown) == sorted(SCENES)
    assert {file.stem for file in FOLDER.iterdir()} == set(SCENES)
