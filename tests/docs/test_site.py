"""The site that Sphinx builds of docs: no warnings, and all that is generated is in it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

from agent import opts
from computectl.drawing.svg import svg_of
from driverkit.rulebook import RULES
from tests.servers import browser

pytest.importorskip("furo")

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"
LONGEST = 2000
"""Words of a page: what is longer is divided, or said in fewer."""
FOR_DEVELOPERS = ("checklists", "costs", "faults", "fleet", "lab", "mutation", "world")
"""Pages that only those who change the project need."""
LOOKED_UP = DOCS / "messages.rst"
"""Searched for a message, not read."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once; a link that leads nowhere, or a page in no table of contents, is an error."""
    output = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = subprocess.run(
        [*command, str(DOCS), str(output)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return output


def test_each_option_of_the_agent_is_in_the_reference(site: Path) -> None:
    anchors = set(re.findall(r'id="([^"]+)"', (site / "options.html").read_text()))
    named = {
        f"{getattr(group, 'name', group) or 'DEFAULT'}.{option.dest}"
        for group, options in opts.list_opts()
        for option in options
    }
    assert sorted(named - anchors) == []


def test_a_search_finds_the_page_of_a_storage(site: Path) -> None:
    script = (site / "searchindex.js").read_text()
    index = json.loads(script.removeprefix("Search.setIndex(").removesuffix(")"))
    assert index["docnames"][index["titleterms"]["ceph"]] == "libvirt/disk"


@pytest.mark.needs("browser")
def test_a_search_for_disabling_a_host_finds_the_page_of_switching_first(site: Path) -> None:
    with browser.Browser() as tab:
        tab.open(f"{(site / 'search.html').as_uri()}?q=disable+host")
        tab.until("document.querySelector('#search-results li a') !== null")
        first = tab.run("document.querySelector('#search-results li a').getAttribute('href')")
    assert first == "switching.html"


def test_the_changelog_has_the_notes_by_tag_or_says_why_it_has_none(tmp_path: Path) -> None:
    for name in ("docs/_ext", "releasenotes"):
        shutil.copytree(REPOSITORY / name, tmp_path / name)
    (tmp_path / "docs" / "index.rst").write_text("Changes\n=======\n\n.. changelog::\n")
    conf = "import sys\nsys.path.insert(0, 'docs/_ext')\nextensions = ['changelog']\n"
    (tmp_path / "docs" / "conf.py").write_text(conf)

    def built() -> str:
        command = [sys.executable, "-m", "sphinx", "-W", "-q", "-E", "-b", "text", "docs", "text"]
        subprocess.run(command, cwd=tmp_path, check=True, timeout=300)
        return (tmp_path / "text" / "index.txt").read_text()

    assert "neither a git repository nor reno.cache" in built()
    git = ["git", "-C", str(tmp_path), "-c", "user.name=a", "-c", "user.email=a@example.org"]
    for words in (["init", "-q"], ["add", "releasenotes"], ["commit", "-q", "-m", "notes"]):
        subprocess.run([*git, *words], check=True)
    text = built()
    assert "In development\n" in text and "The first version." in text and "Known limits" in text
    for tag in ("0.1.0", "reportclient-0.1.0"):
        subprocess.run([*git, "tag", tag], check=True)
    text = built()
    assert "0.1.0\n" in text and "In development" not in text and "The first version." in text


def test_defaults_are_shown_as_one_types_them(site: Path) -> None:
    for page in ("options.html", "registry-options.html"):
        text = (site / page).read_text()
        assert "default: amqp=WARN,boto=WARN," in text
        assert re.findall(r"default: (?:\[&|\[\]|&#|'|True|False|{)[^<,]*", text) == []
        assert re.findall("[\u2018\u2019\u201c\u201d]", text) == []


def test_the_navigation_names_each_page_once_in_sections_that_fold(site: Path) -> None:
    page = (site / "glossary.html").read_text()
    tree = page.partition('<div class="sidebar-tree">')[2].partition("</aside>")[0]
    links = re.findall(r'<a [^>]*href="([^"]+)">(.*?)</a>', tree)
    titles = [title for _, title in links]
    assert len(titles) > 40
    assert [title for title in titles if titles.count(title) > 1] == []
    assert [link for link, _ in links if "#" in link and link != "#"] == []
    assert len(re.findall(r'class="toctree-l1', tree)) < 15 < len(titles)


def test_pages_for_developers_stand_under_develop_and_nowhere_else(site: Path) -> None:
    page = (site / "index.html").read_text()
    users, _, developers = page.partition('<span class="caption-text">Develop</span>')
    linked = re.findall(r'href="(\w+)\.html"', users)
    assert [name for name in linked if name in FOR_DEVELOPERS] == []
    assert [name for name in FOR_DEVELOPERS if f'href="{name}.html"' not in developers] == []


def test_each_page_shows_the_version(site: Path) -> None:
    title = f"compute-agent {metadata.version('compute-agent')}"
    pages = [page for page in site.rglob("*.html") if "_static" not in page.parts]
    assert [page.name for page in pages if title not in page.read_text()] == []


@pytest.mark.parametrize(
    "page",
    sorted(
        [*DOCS.rglob("*.rst"), *REPOSITORY.glob("*.rst"), *REPOSITORY.glob("reportclient/*.rst")]
    ),
    ids=lambda page: str(page.relative_to(REPOSITORY)),
)
def test_a_page_installs_nothing_by_a_name_that_no_index_has(page: Path) -> None:
    """Nothing is released yet."""
    assert (
        re.findall(r"pip install[^\n`]* ['\"]?(?:compute-agent|reportclient)\b", page.read_text())
        == []
    )


def test_each_rule_of_drivers_is_in_the_site(site: Path) -> None:
    text = (site / "driver-kit.html").read_text()
    assert [name for name in RULES if f'id="{name}"' not in text] == []


def test_links_between_pages_lead_to_pages_of_the_site(site: Path) -> None:
    text = "".join(page.read_text() for page in site.glob("*.html"))
    assert re.findall(r'href="(?!_sources|_downloads|http)[^"]*\.rst[#"]', text) == []


def test_no_picture_is_larger_than_what_it_shows_needs() -> None:
    sizes = {picture.name: picture.stat().st_size for picture in DOCS.rglob("*.svg")}
    assert {name: size for name, size in sizes.items() if size > 150_000} == {}


@pytest.mark.parametrize(
    "page",
    sorted({*DOCS.rglob("*.rst"), *DOCS.glob("*.md"), *REPOSITORY.glob("*.rst")} - {LOOKED_UP}),
    ids=lambda page: str(page.relative_to(REPOSITORY)),
)
def test_a_page_is_short_enough_to_be_read(page: Path) -> None:
    assert len(page.read_text().split()) <= LONGEST


@pytest.mark.needs("dot")
@pytest.mark.parametrize("diagram", sorted(DOCS.glob("diagrams/*.dot")), ids=lambda path: path.stem)
def test_a_diagram_is_what_graphviz_draws_now(diagram: Path) -> None:
    drawn = svg_of(diagram.read_text())
    words = [re.findall(r"<text [^>]*>([^<]*)<", text) for text in (drawn, _kept(diagram))]
    assert sorted(words[0]) == sorted(words[1]), "tools/pictures.sh draws docs/diagrams anew"


def _kept(diagram: Path) -> str:
    return diagram.with_suffix(".svg").read_text()
