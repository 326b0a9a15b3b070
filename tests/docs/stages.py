"""What surrounds the commands of a page: an agent's host, a fleet, or the shell of a newcomer.

A public method without arguments is what ``.. do: NAME`` stands for on the pages.
"""

import os
import re
import shlex
import subprocess
import sys
from copy import deepcopy
from pathlib import Path

import yaml

from driverkit.scripted.driver import DEFAULT_SCRIPT
from tests.integration.agent_host import Here
from tests.integration.author import Author
from tests.integration.fleet import load_fleet
from tests.integration.transcripts import files
from tests.registries import reported
from tests.servers.placement import RealPlacement

REPOSITORY = Path(__file__).resolve().parents[2]


class Host:
    """A host with the scripted driver: ``computectl`` runs in this process."""

    def __init__(self, placement: RealPlacement, directory: Path, document: str) -> None:
        self.placement = placement
        self.host = Here(directory, placement.url)
        self.host.configure(more="[registry]\nservice_down_time = 3600")
        self.host.script(DEFAULT_SCRIPT.read_text())
        self.code = 0
        for name, text in files(document).items():
            (directory / name).write_text(text)
        os.chdir(directory)

    def run(self, words: str) -> str:
        if words == "echo $?":
            return str(self.code)
        program, *args = shlex.split(words)
        assert program == "computectl"
        said = self.host.ctl(*args)
        self.code = said.code
        text = said.out + said.err
        text = text.replace(str(self.host.compute_id.parent), "/var/lib/compute-agent")
        text = text.replace(str(self.host.config), "/etc/compute-agent/compute-agent.conf")
        return text.replace(self.placement.url, "http://placement.example")

    def stop(self) -> None:
        os.chdir(REPOSITORY)

    def fleet(self) -> None:
        load_fleet(self.placement, disabled=2)

    def report(self) -> None:
        assert self.host.agent().code == 0

    def record(self) -> None:
        reported(self.host.directory / "state", roots=(self._uuid("host1"),))

    def allocate(self) -> None:
        for cpus, memory in ((100, 98304), (12, 16384)):
            uses = {"VCPU": cpus, "MEMORY_MB": memory}
            self.placement.stranger.put_allocation({self._uuid("host1_numa0"): uses})

    def rebuild(self) -> None:
        script = yaml.safe_load(DEFAULT_SCRIPT.read_text())
        [host] = script["nodes"].values()
        cells = {name: deepcopy(cell) for name, cell in host["children"].items()}
        cells["numa0"]["inventory"]["MEMORY_MB"] = {"total": 262144, "reserved": 4096}
        del cells["numa1"]["children"]["pf1"]
        host["children"] = cells
        self.host.script(yaml.safe_dump(script))

    def lose(self) -> None:
        self.host.compute_id.unlink()
        (self.host.compute_id.parent / "nodes.json").unlink(missing_ok=True)

    def strange(self) -> None:
        self.placement.stranger.create_child(self._uuid("host1"), "left-over")

    def _uuid(self, name: str) -> str:
        return self.placement.uuids()[name]


class Newcomer(Author):
    """A shell with the files that the page shows."""

    def __init__(self, _: RealPlacement, directory: Path, document: str) -> None:
        super().__init__(directory)
        self.prepare()
        for name, text in files(document).items():
            (self.cwd / name).write_text(text)
        self.service = re.search(r"in one terminal::\n\n {4}(.*)\n", document)

    def run(self, words: str) -> str:
        done = self.shell(words)
        assert done.returncode in {0, 1} and "Traceback" not in done.stderr, done.stderr
        return done.stderr + done.stdout

    def start(self) -> None:  # type: ignore[override]
        """Start the command that the page has run in another terminal."""
        assert self.service is not None
        super().start(self.service[1], lambda log: "to Placement" in log)


class Services:
    """The repository's folder, and a compute node of Nova's with another service's child."""

    def __init__(self, placement: RealPlacement, *_: object) -> None:
        environment = {"PLACEMENT_URL": placement.url, "PLACEMENT_TOKEN": "admin"}
        self.environment = {**os.environ, **environment, "PYTHONWARNINGS": "ignore"}
        self.root = placement.stranger.create_provider("compute1")
        placement.stranger.set_inventory(self.root, {"VCPU": {"total": 8}})
        placement.stranger.add_trait(self.root, "COMPUTE_NODE")
        placement.stranger.create_child(self.root, "theirs")

    def run(self, words: str) -> str:
        words = re.sub(r"\bpython(?= )", sys.executable, words)
        return subprocess.run(
            ["bash", "-c", words],
            cwd=REPOSITORY,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
            timeout=300,
            check=True,
        ).stdout

    def stop(self) -> None:
        """Nothing runs."""
