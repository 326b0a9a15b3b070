"""docs/lab.rst, on the lab itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.integration.lab_page import comparable, drawn, shown
from tests.integration.transcripts import replayed

REPOSITORY = Path(__file__).resolve().parents[2]


def test_the_page_draws_what_the_lab_has(start):
    libvirt, _, others = shown("host").partition("[pci]\n")
    lines = libvirt.removeprefix("[libvirt]\n").replace("virt_type = qemu\n", "")
    agent = start(lines, f"[pci]\n{others}")
    assert comparable(drawn(agent)) == comparable(shown("drawn"))


def test_the_pages_commands_say_what_it_shows(lab):
    page = (REPOSITORY / "docs" / "lab.rst").read_text()
    seen = [(command.output, said) for command, said in replayed(page, {}, run)]
    assert seen
    for shown_, said in seen:
        assert said == shown_


def run(words: str) -> str:
    told = subprocess.run(
        ["bash", "-c", words],
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    return told.stdout + told.stderr
