"""The sample of the policy that the package brings says what the code says."""

from __future__ import annotations

from pathlib import Path

import yaml

from compute_registry.rest.policy import list_rules

SAMPLE = Path(__file__).parents[3] / "etc" / "compute-registry" / "policy.yaml.sample"
HOW = "run: oslopolicy-sample-generator --config-file etc/compute-registry/policy-generator.conf"


def test_the_sample_has_all_rules_with_their_defaults() -> None:
    rules = [line[1:] for line in SAMPLE.read_text().splitlines() if line.startswith('#"')]
    assert yaml.safe_load("\n".join(rules)) == {
        rule.name: rule.check_str for rule in list_rules()
    }, HOW
