"""compute-registry's samples of a configuration and a policy are what the code says."""

import re
import subprocess
import sysconfig
from pathlib import Path

import pytest
import yaml

from compute_registry.rest.policy import list_rules

REPOSITORY = Path(__file__).resolve().parents[3]
SAMPLE = REPOSITORY / "etc" / "compute-registry" / "compute-registry.conf.sample"
POLICY = SAMPLE.with_name("policy.yaml.sample")


def ours(sample: str) -> str:
    """Without the options of libraries, whose words change with their releases."""
    groups = re.split(r"(?m)^(?=\[)", sample)
    ours = (group for group in groups if "# From compute_registry\n" in group)
    return "".join(group for group in ours if not group.startswith("[placement]"))


@pytest.mark.slow
def test_the_registrys_sample_is_what_the_code_says(tmp_path: Path) -> None:
    generator = Path(sysconfig.get_path("scripts"), "oslo-config-generator")
    settings = SAMPLE.with_name("config-generator.conf")
    made = tmp_path / "sample"
    command = [generator, "--config-file", settings, "--output-file", made]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    assert ours(SAMPLE.read_text()) == ours(made.read_text()) != "", (
        f"run: oslo-config-generator --config-file {settings.relative_to(REPOSITORY)}"
    )
    assert "#transport_url = " in SAMPLE.read_text()
    assert "[keystone_authtoken]" in SAMPLE.read_text()
    placement = re.split(r"(?m)^(?=\[)", made.read_text().partition("\n[placement]\n")[2])[0]
    assert "#timeout = " in placement and "without restarting" not in placement, (
        "compute-registry reads [placement] at its start only"
    )


def test_the_policys_sample_has_all_rules_with_their_defaults() -> None:
    rules = [line[1:] for line in POLICY.read_text().splitlines() if line.startswith('#"')]
    assert yaml.safe_load("\n".join(rules)) == {
        rule.name: rule.check_str for rule in list_rules()
    }, "run: oslopolicy-sample-generator --config-file etc/compute-registry/policy-generator.conf"
