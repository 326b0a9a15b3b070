"""compute-registry's sample configuration is what the code says."""

from __future__ import annotations

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest

REPOSITORY = Path(__file__).resolve().parents[3]
SAMPLE = REPOSITORY / "etc" / "compute-registry" / "compute-registry.conf.sample"


def ours(sample: str) -> str:
    """Without the options of oslo's libraries, whose words change with their releases."""
    groups = re.split(r"(?m)^(?=\[)", sample)
    return "".join(group for group in groups if "# From agent.registry\n" in group)


@pytest.mark.slow
def test_the_registrys_sample_is_what_the_code_says(tmp_path: Path) -> None:
    generator = Path(sysconfig.get_path("scripts"), "oslo-config-generator")
    settings = SAMPLE.with_name("config-generator.conf")
    made = tmp_path / "sample"
    command = [generator, "--config-file", settings, "--output-file", made]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    assert ours(SAMPLE.read_text()) == ours(made.read_text()), (
        f"run: oslo-config-generator --config-file {settings.relative_to(REPOSITORY)}"
    )
    assert "#transport_url = " in SAMPLE.read_text()
    assert "[keystone_authtoken]" in SAMPLE.read_text()
