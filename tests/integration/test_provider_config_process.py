"""Provider files beside the real process and computectl, on a real Placement."""

import json
import re
import shutil
import signal
import textwrap
from pathlib import Path

import pytest
import yaml

from computectl.app import main
from driverkit.scripted.driver import DEFAULT_SCRIPT
from tests.integration.agent_host import Here
from tests.integration.provider_hosts import EVERY_ROOT, HEAD, entry
from tests.integration.transcripts import Uuids, replayed, steps
from tests.servers.agent import AgentProcess
from tests.servers.placement import RealPlacement

REPOSITORY = Path(__file__).resolve().parents[2]
DOCUMENT = (REPOSITORY / "docs" / "provider-config.rst").read_text()
EXAMPLE = REPOSITORY / "examples" / "provider_config" / "licences.yaml"
SCRIPT = """
nodes:
  testhost:
    inventory: {VCPU: 4}
    traits: [CUSTOM_OF_THE_SCRIPT]
    children: {gpu: {inventory: {VGPU: 2}}}
"""
OPTIONS = """\
update_resources_interval = -1
periodic_fuzzy_delay = 0
[compute]
provider_config_location = {files}
"""


@pytest.fixture
def agent(tmp_path: Path, placement: RealPlacement):
    (tmp_path / "files").mkdir()
    options = OPTIONS.format(files=tmp_path / "files")
    process = AgentProcess(tmp_path, placement.url, script=SCRIPT, options=options)
    yield process
    process.kill()


def write(agent: AgentProcess, *entries: str) -> Path:
    path = agent.directory / "files" / "a.yaml"
    path.write_text(HEAD + "".join(entries) if entries else HEAD + "  []\n")
    return path


def root(agent: AgentProcess) -> str:
    return (agent.state_path / "compute_id").read_text().strip()


def custom(agent: AgentProcess, placement: RealPlacement) -> set[str]:
    found = placement.stranger.traits(root(agent))
    return {name for name in found if name.startswith("CUSTOM_")} - {"CUSTOM_OWNER_COMPUTE_AGENT"}


def status(agent: AgentProcess) -> list[str]:
    [node] = json.loads((agent.state_path / "status.json").read_text())["nodes"]
    return [f"{one['subject']}: {one['text']}" for one in node["conditions"]]


def test_sighup_applies_good_files_and_keeps_the_last_good_ones(agent, placement) -> None:
    path = write(agent, entry(EVERY_ROOT, "CUSTOM_GOLD", CUSTOM_LICENSE=8))
    agent.start()
    agent.until_logged("to Placement", times=2)
    assert custom(agent, placement) == {"CUSTOM_GOLD", "CUSTOM_OF_THE_SCRIPT"}

    write(agent, entry(EVERY_ROOT, "CUSTOM_SILVER"), entry("name: gpu", CUSTOM_SLOT=1))
    agent.send(signal.SIGHUP)
    agent.until_logged("to Placement", times=3)
    assert custom(agent, placement) == {"CUSTOM_SILVER", "CUSTOM_OF_THE_SCRIPT"}
    assert set(placement.stranger.inventory(root(agent))) == {"VCPU"}

    write(agent, entry(EVERY_ROOT, "SILVER"))
    mark = placement.mark()
    agent.send(signal.SIGHUP)
    agent.until(lambda: status(agent))
    assert placement.since(mark) == []
    [told] = status(agent)
    assert f"{path}:5: providers[0].traits.additional[0]: has to be a custom trait" in told
    assert agent.log.count(f"Provider files not applied: {path}:5: ") == 1

    write(agent)
    agent.send(signal.SIGHUP)
    agent.until(lambda: not status(agent))
    assert custom(agent, placement) == {"CUSTOM_OF_THE_SCRIPT"}
    assert agent.stop() == 0
    assert "Traceback" not in agent.log


def test_once_with_a_bad_file_reports_all_else_and_exits_1(agent: AgentProcess, placement) -> None:
    path = write(agent, entry(EVERY_ROOT, "GOLD"))
    done = agent.once()
    assert done.returncode == 1
    assert f"{path}:5: providers[0].traits.additional[0]: has to be" in done.stderr
    assert "no provider file is applied; correct this, then reload compute-agent" in done.stderr
    assert custom(agent, placement) == {"CUSTOM_OF_THE_SCRIPT"}


# -- the document


class Story:
    """What happens in docs/provider-config.rst."""

    def __init__(self, placement: RealPlacement, directory: Path) -> None:
        self.host = Here(directory, placement.url)
        self.files = directory / "files"
        self.files.mkdir()
        self.host.configure(more=f"[compute]\nprovider_config_location = {self.files}")
        self.host.script(DEFAULT_SCRIPT.read_text())
        self.code = 0

    def slip(self) -> None:
        (self.host.directory / "new.yaml").write_text(
            "meta: {schema_version: '1.0'}\n"
            "providers:\n"
            "- identification: {uuid: $COMPUTE_NODE}\n"
            "  trait: {additional: [CUSTOM_GOLD]}\n"
            "- identification: {name: host1_numa0}\n"
            "  inventories:\n"
            "    additional:\n"
            "    - VCPU: {total: 2}\n"
            "    - CUSTOM_SLOT: {total: 0}\n"
        )

    def good(self) -> None:
        for path in self.files.iterdir():
            path.unlink()
        assert self.host.agent().code == 0
        shutil.copy(EXAMPLE, self.files)

    def run(self, words: str) -> str:
        if words == "echo $?":
            return str(self.code)
        args = [
            str(self.host.directory / word) if word in {"new.yaml", "files"} else word
            for word in words.split()[1:]
        ]
        said = self.host.ctl(*args)
        self.code = said.code
        return (said.out + said.err).replace(f"{self.host.directory}/", "")


@pytest.fixture
def story(placement: RealPlacement, tmp_path: Path) -> Story:
    return Story(placement, tmp_path)


def test_every_command_says_what_the_document_says(story: Story) -> None:
    written, real = Uuids(), Uuids()
    for command, output in replayed(DOCUMENT, {"slip": story.slip}, story.run):
        assert real.numbered(output) == written.numbered(command.output), command.words
    assert len(list(steps(DOCUMENT))) == 3


def test_the_example_is_the_one_in_the_document_and_is_applied(story: Story, placement) -> None:
    shown = re.search(r":name: example\n\n((?: {4}.*\n|\n)+)", DOCUMENT)
    assert shown is not None
    assert textwrap.dedent(shown[1]).strip() == EXAMPLE.read_text().strip()
    story.good()
    assert story.host.agent().code == 0
    rows = {
        (row["provider"], row["resource_class"]): row
        for row in story.host.ctl("tree", "-f", "json").json()
    }
    licences = rows["host1", "CUSTOM_LICENCE_SOLVER"]
    assert (licences["total"], licences["reserved"], licences["capacity"]) == (8, 0, 8)
    assert "CUSTOM_RACK_B7" in licences["traits"]
    assert rows["host1_numa0", "CUSTOM_CACHE_WAYS"]["capacity"] == 10
    assert story.host.ctl("plan", "--exit-code").code == 0


def test_plan_tells_of_bad_files_and_of_providers_that_are_not_there(story: Story) -> None:
    story.good()
    (story.files / "b.yaml").write_text(HEAD + entry("name: nobody", "CUSTOM_GOLD"))
    said = story.host.ctl("plan", "--no-calls")
    assert said.code == 0
    assert "b.yaml:3: no provider has the name nobody; the entry is applied" in said.err
    (story.files / "b.yaml").write_text("meta: 1\n")
    said = story.host.ctl("plan", "--no-calls")
    assert said.code == 1
    assert "nothing would change, but there are errors" in said.text
    assert f"{story.files}/b.yaml:1: meta: has to be a mapping with 'schema_version'" in said.err


def test_check_lists_errors_and_warnings_for_programs(story: Story) -> None:
    story.slip()
    path = story.host.directory / "new.yaml"
    said = story.host.ctl("provider-config", "check", "-f", "json", str(path))
    assert (said.code, said.err) == (2, "")
    assert [(row["kind"], row["line"]) for row in said.json()] == [("error", n) for n in (4, 8, 9)]
    path.write_text("meta: {schema_version: '1.4'}\n")
    said = story.host.ctl("provider-config", "check", str(path))
    assert said.code == 0
    assert said.err.startswith(f"computectl: warning: {path}:1: meta.schema_version: is 1.4, newer")


def test_the_schema_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["provider-config", "schema"])
    assert ended.value.code == 0
    assert yaml.safe_load(capsys.readouterr().out)["$defs"]["traits"]["type"] == "object"
