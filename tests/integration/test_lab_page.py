"""docs/lab.rst, from the lab's own documents: no lab has to run for it."""

from __future__ import annotations

import os
import platform
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.integration.lab_page import comparable, drawn, shown
from tests.integration.libvirt_hosts import DocumentedHost
from tests.unit.libvirt.fake_binding import DATA, FakeDevice

REPOSITORY = Path(__file__).resolve().parents[2]
on_x86_64 = pytest.mark.skipif(platform.machine() != "x86_64", reason="the lab is x86_64")


@pytest.fixture
def host(placement, tmp_path):
    host = DocumentedHost(placement, tmp_path, (DATA / "lab-capabilities.xml").read_text(), 2910)
    host.binding.answers |= {"getHostname": "lab", "listAllDevices": devices()}
    host.binding.answers["getDomainCapabilities"] = (
        DATA / "lab-domain-capabilities.xml"
    ).read_text()
    host.cpus(4)
    yield host
    host.close()


def devices() -> list[FakeDevice]:
    listed = ElementTree.parse(DATA / "lab-node-devices.xml").getroot()
    return [FakeDevice(ElementTree.tostring(each, encoding="unicode")) for each in listed]


def test_the_page_draws_what_is_reported_of_the_lab(host):
    agent = host.reported(shown("host"))
    assert comparable(drawn(agent)) == comparable(shown("drawn"))


def test_the_pages_options_are_those_of_the_demo():
    script = f". {REPOSITORY}/tools/lab/demo.sh; lab_configuration"
    told = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ("[libvirt]\n" + told.stdout).split() == shown("host").split()


def test_the_page_names_every_command_of_the_script():
    told = subprocess.run(
        [REPOSITORY / "tools" / "lab.sh", "--help"], capture_output=True, text=True, check=True
    )
    usage = told.stdout.partition("usage: tools/lab.sh ")[2].partition("\n")[0]
    page = (REPOSITORY / "docs" / "lab.rst").read_text()
    for command in usage.removesuffix(" COMMAND").split(" | "):
        assert f"``tools/lab.sh {command}" in page, command


def run_with(lab: Path, script: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [REPOSITORY / "tools" / script, *words],
        capture_output=True,
        text=True,
        env={**os.environ, "COMPUTE_AGENT_LAB_DIR": str(lab)},
        timeout=300,
        check=False,
    )


@on_x86_64
@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["demo.sh", "--lab", "--driver", "fake"], 1, "--lab and --driver do not go together"),
        (["lab.sh", "begin"], 2, "usage: tools/lab.sh start | stop"),
        (["lab.sh", "plug"], 1, "the lab does not run"),
        (["lab.sh", "status"], 1, "start it with tools/lab.sh start"),
        (["lab.sh", "uri"], 1, ""),
        (["lab.sh", "stop"], 0, "the lab is stopped"),
    ],
)
def test_without_a_lab_the_scripts_say_what_to_do(tmp_path, words, code, said):
    told = run_with(tmp_path / "lab", *words)
    assert told.returncode == code, told.stderr
    assert said in told.stdout + told.stderr


@on_x86_64
def test_a_state_directory_that_sockets_can_not_be_in_is_refused(tmp_path):
    told = run_with(tmp_path / ("x" * 120), "lab.sh", "start")
    assert told.returncode == 1
    assert "too long for a unix socket" in told.stderr
    assert "COMPUTE_AGENT_LAB_DIR=/some/where" in told.stderr
