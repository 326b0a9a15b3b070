"""The dashboard, the alert rules and the page name metrics that there are, and all of them."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from prometheus_client import Metric, ProcessCollector

from agent.loop import Loop
from agent.metrics.monitoring import PREFIX, Facts, Numbers
from agent.opts import MonitoringSettings
from compute_registry import metrics as registry
from compute_registry.metrics import RegistryMonitoring
from tests.servers.process import completed

REPOSITORY = Path(__file__).resolve().parents[3]
SHIPPED = REPOSITORY / "etc" / "monitoring"
RULES = SHIPPED / "compute-agent.rules.yml"
DASHBOARD = SHIPPED / "compute-agent.dashboard.json"
CASES = sorted(Path(__file__).parent.glob("alerts*.yml"))
PAGE = (REPOSITORY / "docs" / "monitoring.rst").read_text()
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}
BOTH = f"(?:{PREFIX}|{registry.PREFIX})"
PROCESS = re.compile(f"{BOTH}_process_")


def families() -> dict[str, Metric]:
    numbers = Numbers()
    facts: Any = Facts(lambda: None, SimpleNamespace(trackers={}), Loop())
    numbers.registry.register(facts)
    ProcessCollector(namespace=PREFIX, registry=numbers.registry)
    made = [*numbers.registry.collect(), *of_the_registry().collected.collect()]
    return {one.name: one for one in made}


def of_the_registry() -> RegistryMonitoring:
    store: Any = SimpleNamespace(list_services=lambda **_: [], counts=dict)
    return RegistryMonitoring(MonitoringSettings(), store, lambda: "")


FAMILIES = families()
NAMES = {f"{name}{end}" for name, one in FAMILIES.items() for end in SUFFIXES[one.type]}


def rules() -> list[dict[str, Any]]:
    return [one for group in yaml.safe_load(RULES.read_text())["groups"] for one in group["rules"]]


def expressions() -> dict[str, str]:
    found = {f"alert {one['alert']}": one["expr"] for one in rules()}
    for panel in json.loads(DASHBOARD.read_text())["panels"]:
        for target in panel["targets"]:
            found[f"panel {panel['title']} {target['refId']}"] = target["expr"]
    return found


@pytest.mark.parametrize("where", expressions())
def test_what_is_shipped_asks_for_metrics_and_labels_that_there_are(where: str) -> None:
    """Labels by ``by`` and matchers; Prometheus adds instance and job by itself."""
    text = expressions()[where]
    metrics = set(re.findall(rf"\b{BOTH}_\w+", text))
    assert metrics <= NAMES, f"{where} asks for what there is not"
    assert metrics or "up{" in text
    asked = {one for group in re.findall(r"by \(([^)]*)\)", text) for one in group.split(", ")}
    asked |= set(re.findall(r"[{,]\s*(\w+)\s*[=!]~?", text))
    assert asked - {""} <= {"le", "instance", "job", *labels()}


def labels() -> set[str]:
    counted = [*vars(Numbers()).values(), *vars(of_the_registry()).values()]
    of_counters = {name for one in counted for name in getattr(one, "_labelnames", ())}
    read = {"node", "check", "source", "version", "state", "status"}
    return of_counters | read


def test_every_metric_is_on_the_page_and_nothing_else() -> None:
    told = set(re.findall(rf"``({BOTH}_\w+)``", PAGE))
    own = {name for name in NAMES if not PROCESS.match(name)}
    shown = {re.sub("_(bucket|sum|count)$", "", name) for name in own}
    assert shown - told == set(), "docs/monitoring.rst has a row for each"
    assert told - shown == set(), "docs/monitoring.rst has what nothing tells"


def test_every_alert_has_a_next_step_on_the_page() -> None:
    for rule in rules():
        assert f"``{rule['alert']}``" in PAGE
        assert rule["annotations"]["description"]


def test_every_metric_has_a_text_and_a_unit_that_prometheus_would_choose() -> None:
    for name, one in FAMILIES.items():
        assert one.documentation.endswith(".") or PROCESS.match(name)
        assert not re.search("_(ms|minutes|mib|kb)$", name)


def asserted() -> str:
    """What tests ask metrics for: the names that they look for, of the agent and the registry."""
    files = [one for one in (REPOSITORY / "tests").rglob("*.py") if one != Path(__file__)]
    return "\n".join(one.read_text() for one in files)


@pytest.mark.parametrize("name", [name for name in FAMILIES if not PROCESS.match(name)])
def test_every_metric_is_looked_at_by_a_test(name: str) -> None:
    """By its whole name, or as ``value(numbers, "name")`` has it."""
    short = re.sub(f"^{BOTH}_", "", name)
    ends = "(_total|_count|_sum|_bucket)?"
    found = rf"\b{name}{ends}\b|\bvalue\([\w.]+,\s*\"{short}{ends}\""
    own = registry.PREFIX if name.startswith(registry.PREFIX) else PREFIX
    files = "test_registry_numbers" if own == registry.PREFIX else "test_monitoring"
    near = (Path(__file__).parent / f"{files}.py").read_text()
    assert re.search(found, near) or re.search(rf"\b{name}{ends}\b", asserted())


@pytest.mark.slow
@pytest.mark.needs("promtool")
def test_promtool_takes_the_rules_and_each_alert_fires_when_it_should() -> None:
    for command in (["check", "rules", str(RULES)], ["test", "rules", *map(str, CASES)]):
        ran = completed("promtool", *command)
        assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.slow
@pytest.mark.needs("promtool")
def test_promtool_can_read_each_query_of_the_dashboard(tmp_path: Path) -> None:
    """As rules, since those are what it checks."""
    asked = [query.replace("$host", ".*") for query in expressions().values()]
    recorded = [{"record": f"panel:{number}", "expr": one} for number, one in enumerate(asked)]
    path = tmp_path / "panels.yml"
    path.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": recorded}]}))
    command = ["promtool", "check", "rules", str(path)]
    ran = completed(*command)
    assert ran.returncode == 0, ran.stdout + ran.stderr


@pytest.mark.parametrize("alert", [one["alert"] for one in rules()])
def test_each_alert_is_shown_firing_and_not_firing(alert: str) -> None:
    groups = [one for path in CASES for one in yaml.safe_load(path.read_text())["tests"]]
    cases = [one for group in groups for one in group["alert_rule_test"]]
    fires = {bool(one["exp_alerts"]) for one in cases if one["alertname"] == alert}
    assert fires == {False, True}, f"tests/unit/metrics/alerts.yml, {alert}"
