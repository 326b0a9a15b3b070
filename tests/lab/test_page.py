"""docs/lab.rst, on the lab itself."""

import re
from pathlib import Path

from tests.integration.libvirt_hosts import drawn
from tests.integration.transcripts import block, expect_as_shown
from tests.servers.process import completed

REPOSITORY = Path(__file__).resolve().parents[2]
NOT_SHOWN = ("COMPUTE_", "CUSTOM_OWNER", "HW_CPU_")
VARYING = re.compile(r"((?:DISK_GB|MEMORY_MB) ).*")
"""The kernel divides memory anew at each boot, and the disk is this machine's."""


def comparable(text: str) -> list[str]:
    return [" ".join(VARYING.sub(r"\1...", line).split()) for line in text.splitlines()]


def test_the_page_draws_what_the_lab_has(start):
    libvirt, _, others = block("lab", "host").partition("[pci]\n")
    lines = libvirt.removeprefix("[libvirt]\n").replace("virt_type = qemu\n", "")
    agent = start(lines, f"[pci]\n{others}")
    assert comparable(drawn(agent, NOT_SHOWN)) == comparable(block("lab", "drawn"))


def test_the_pages_commands_print_what_it_shows(lab):
    expect_as_shown((REPOSITORY / "docs" / "lab.rst").read_text(), {}, run)


def run(words: str) -> str:
    told = completed("bash", "-c", words, cwd=REPOSITORY)
    return told.stdout + told.stderr
