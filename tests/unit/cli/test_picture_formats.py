"""Every format of FORMATS shows all that a picture has: one that is added needs a reader here."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterator
from html import unescape
from pathlib import Path
from pkgutil import resolve_name

import pytest

from computectl.drawing import pictures
from computectl.drawing.picture import Box, BoxKind, Hub, Picture
from computectl.drawing.pictures import FORMATS

PAGE = (Path(__file__).parents[3] / "docs" / "pictures.rst").read_text()
ODD = 'a<b>&"c#1;'
PICTURE = Picture(
    boxes=(
        Box(
            0,
            BoxKind.ROOT,
            ODD,
            1,
            ("VCPU 8, used 2",),
            ("CUSTOM_A",),
            ("3 consumers",),
            marked=True,
        ),
        Box(1, BoxKind.DEVICE, "pf0 and others", 4, ("SRIOV_NET_VF 8",), disabled=True),
        Box(2, BoxKind.SHARING, "storage", 1, ("DISK_GB 1000",), foreign=True),
    ),
    edges=((0, 1),),
    hubs=(Hub("7a0e6a3c", (0, 2)),),
    overview=True,
)


def of_mermaid(text: str) -> Iterator[str]:
    for label in re.findall(r'"(.*)"', text):
        for words in re.split(r"<[^>]*>", label):
            yield re.sub(r"#35;", "#", unescape(re.sub(r"#(?!35)(\w+;)", r"&\1", words)))


def of_dot(text: str) -> Iterator[str]:
    for line in text.splitlines():
        yield from map(unescape, re.split(r"<[^>]*>", line))


def of_svg(text: str) -> Iterator[str]:
    yield from map(unescape, re.findall(r"<text [^>]*>([^<]*)</text>", text))


READERS: dict[str, Callable[[str], Iterator[str]]] = {
    "dot": of_dot,
    "mermaid": of_mermaid,
    "svg": of_svg,
}


def test_every_writer_of_pictures_is_a_format() -> None:
    """What draws a picture, and only that: ``draw_svg(picture: Picture) -> str``."""
    drawing = Path(pictures.__file__).parent
    writers = {
        f"computectl.drawing.{file.stem}:{name}"
        for file in drawing.glob("*.py")
        for name in re.findall(
            r"^def ([a-z]\w+)\(picture: Picture\) -> str:", file.read_text(), re.M
        )
    }
    forgotten = "a line of FORMATS in computectl/drawing/pictures.py for each writer"
    assert writers == set(FORMATS.values()), forgotten


def test_every_format_has_a_reader_here() -> None:
    assert set(READERS) == set(FORMATS), "READERS of this file reads back what a writer writes"


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_is_on_the_page(name: str) -> None:
    assert f"``{name}``" in PAGE, "docs/pictures.rst lists the formats"


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] if name == "svg" else []) for name in FORMATS],
)
def test_every_format_shows_all_that_a_picture_has(name: str) -> None:
    if name == "svg" and not shutil.which("dot"):
        pytest.skip("Graphviz is not installed")
    words = {
        " ".join(found.split()) for found in READERS[name](resolve_name(FORMATS[name])(PICTURE))
    }
    for box in PICTURE.boxes:
        missing = {box.title, *box.amounts, *box.traits, *box.notes} - words
        assert not missing, f"{name} leaves out {missing}"
    assert {"disabled", "aggregate 7a0e6a3c"} <= words
    for kind in PICTURE.kinds():
        assert any(kind.value in found for found in words), f"the legend has no {kind.name}"
