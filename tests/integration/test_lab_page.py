"""docs/lab.rst, from the lab's own documents: no lab has to run for it."""

from __future__ import annotations

import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.integration.lab_page import comparable, drawn, shown
from tests.integration.libvirt_hosts import DocumentedHost
from tests.unit.libvirt.fake_binding import DATA, FakeDevice

REPOSITORY = Path(__file__).resolve().parents[2]
CARD = "pci_0000_42_00_0"


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
