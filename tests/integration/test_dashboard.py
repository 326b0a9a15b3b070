"""The shipped dashboard on a real Prometheus that scraped real agents: every panel has something to show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.dashboard import panels, watched_fleet
from tests.servers.placement import RealPlacement
from tests.servers.rabbitmq import RabbitMQ
from tests.waiting import eventually

pytest.importorskip("libvirt")


@pytest.mark.faults  # a broker, a registry, two agents, and Prometheus's own pace
@pytest.mark.needs("prometheus")
def test_each_query_of_each_panel_is_answered_by_what_agents_and_a_registry_have_counted(
    tmp_path: Path, placement: RealPlacement, own_broker: RabbitMQ
) -> None:
    asked = [each.query for panel in panels() for each in panel.targets]
    with watched_fleet(tmp_path, placement, own_broker) as run:
        run.happen()
        eventually(lambda: [one for one in asked if not run.prometheus.ask(one)] == [])
