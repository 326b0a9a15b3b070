"""The site that Sphinx builds of docs: no warnings, and all that is generated is in it."""

import html
import importlib
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from agent import opts
from agent.main import main
from driverkit.contract import DriverContract
from tests.servers.process import completed

pytest.importorskip("furo")
sys.path.append(str(Path(__file__).resolve().parents[2] / "docs" / "_ext"))
errors_at_start = importlib.import_module("errors_at_start")

REPOSITORY = Path(__file__).resolve().parents[2]
DOCS = REPOSITORY / "docs"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built once; a link that leads nowhere, or a page in no table of contents, is an error."""
    output = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html"]
    done = completed(*command, str(DOCS), str(output), timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    return output


def test_each_option_is_in_the_reference_with_its_default_as_typed(site: Path) -> None:
    text = (site / "options.html").read_text()
    named = {
        f"{getattr(group, 'name', group) or 'DEFAULT'}.{option.dest}"
        for group, options in opts.list_opts()
        for option in options
    }
    assert named - set(re.findall(r'id="([^"]+)"', text)) == set()
    assert "default: amqp=WARN,boto=WARN," in text
    assert re.findall(r"default: (?:\[&|\[\]|&#|'|True|False|{)[^<,]*", text) == []


WRONG = (
    *("state_path =", "compute_driver = fake,fake", "[compute]\nowner_trait =", "hots = a"),
    "[compute]\ncpu_shared_set = 0-3\ncpu_dedicated_set = 3",
    "[registry]\nconnection = sqlite://",
    *("[registry]\naccess = rpc", "[monitoring]\nlisten = 192.0.2.1", "compute_driver = fkae"),
    *("[libvirt]\ncpu_models = a", "[placement]\nauth_type ="),
)
"""Lines of a configuration that end the start."""


def test_each_error_that_ends_a_start_is_on_the_page_of_messages_once(
    site: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (DOCS / "messages.rst").read_text()
    text = html.unescape(re.sub("<[^>]+>", "", (site / "messages.html").read_text()))
    listed = errors_at_start.unexplained(source)
    assert len(listed) > 50
    assert [each for each in listed if text.splitlines().count(each) != 1] == []
    terms = re.findall("``(.+?)``", "\n".join(re.findall(r"(?m)^``.+``$", source)))
    assert len(terms) == len(set(terms))
    for number, lines in enumerate(WRONG):
        path = tmp_path / f"{number}.conf"
        default = "compute_driver = libvirt\n" if "compute_driver" not in lines else ""
        path.write_text(f"[DEFAULT]\nstate_path = {tmp_path}\n{default}{lines}\n")
        with pytest.raises(SystemExit) as ended:
            main(["--config-file", str(path), "--once"])
        error = capsys.readouterr().err.strip().splitlines()[-1].removeprefix("compute-agent: ")
        assert ended.value.code == 2, (lines, error)
        patterns = map(errors_at_start.as_pattern, (*listed, *terms))
        assert any(re.search(each, error) for each in patterns), error


SEARCHED = {
    "draining": "troubleshoot",
    "emptied": "troubleshoot",
    "allocations": "troubleshoot",
    "adopt": "computectl",
}
"""The page that an operator has to find first."""


def test_a_search_finds_the_operators_page_first(site: Path) -> None:
    if (node := shutil.which("node")) is None:
        pytest.skip("node is not installed")
    command = [node, str(Path(__file__).with_name("search.js")), str(site), *SEARCHED]
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert dict(zip(SEARCHED, found.split(), strict=True)) == SEARCHED


def test_links_between_pages_lead_to_pages_of_the_site(site: Path) -> None:
    text = "".join(page.read_text() for page in site.glob("*.html"))
    assert re.findall(r'href="(?!_sources|_downloads|http)[^"]*\.rst[#"]', text) == []


def test_each_rule_of_drivers_is_in_the_site(site: Path) -> None:
    text = (site / "driver-kit.html").read_text()
    tests = [name for name in vars(DriverContract) if name.startswith("test_")]
    assert [name for name in tests if f'id="{name}"' not in text] == []


def test_the_changelog_has_the_notes_by_tag_or_says_why_not(tmp_path: Path) -> None:
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
