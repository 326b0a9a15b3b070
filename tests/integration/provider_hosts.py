"""A host with provider files beside small drivers, on the fake or the real Placement."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from agent.nodes.nodes import Nodes
from agent.period.rules import Rules
from agent.period.service_tag import tag_of
from agent.provider_config.files import ProviderFiles
from agent.told.reports import Report
from drivers.api import ComputeDriver
from drivers.loader import LoadedDriver
from reportclient.http import PlacementAPI, token_adapter
from reportclient.testing.fake_placement import FakePlacement
from tests.integration.agents import OWNER, ROOT, VERIFY
from tests.servers.placement import RealPlacement

HEAD = "meta: {schema_version: '1.0'}\nproviders:\n"


def entry(whom: str, *traits: str, **classes: int) -> str:
    """One entry in flow style; ``whom`` is ``uuid: …`` or ``name: …``."""
    records = ", ".join(f"{name}: {{total: {total}}}" for name, total in classes.items())
    return (
        f"- identification: {{{whom}}}\n"
        f"  inventories: {{additional: [{{{records}}}]}}\n"
        f"  traits: {{additional: [{', '.join(traits)}]}}\n"
    )


EVERY_ROOT = "uuid: $COMPUTE_NODE"


class Host:
    """One agent's working parts, period by period; time is told."""

    def __init__(
        self, placement: FakePlacement | RealPlacement, directory: Path, *drivers: ComputeDriver
    ) -> None:
        self.placement = placement
        self.stranger = placement.stranger
        self.files, self.state = directory / "provider_config", directory / "state"
        self.files.mkdir()
        self.state.mkdir()
        self.drivers = drivers
        self.now = 0.0
        self.nodes: Nodes

    def write(self, *entries: str, name: str = "a.yaml") -> Path:
        path = self.files / name
        path.write_text(HEAD + "".join(entries) if entries else HEAD + "  []\n")
        return path

    def start(self) -> None:
        """As after any end of the process: everything that it knew is gone."""
        real = isinstance(self.placement, RealPlacement)
        api = PlacementAPI(token_adapter(self.placement.url, "admin")) if real else self.placement
        named = [LoadedDriver.of(f"driver{n}", each) for n, each in enumerate(self.drivers, 1)]
        rules = Rules(owner_traits=(OWNER,), verify_every=VERIFY)
        additions = ProviderFiles.of(self.files, self.state)
        additions.load()
        self.nodes = Nodes(ROOT, named, api, rules, state_path=self.state, additions=additions)

    def reload(self) -> None:
        """What SIGHUP does."""
        self.nodes.additions.read()

    def period(self, after: float = 10.0, **options: Any) -> Report:
        (report,) = self.periods(after, **options)
        return report

    def periods(self, after: float = 10.0, **options: Any) -> list[Report]:
        self.now += after
        return self.nodes.period(self.now, **options)

    def settle(self) -> None:
        for _ in range(3):
            reports = self.periods(2 * VERIFY)
            assert all(report.ok for report in reports), [one.texts() for one in reports]
        assert not any(report.done for report in reports)

    def calls_of(self, action: Callable[[], object]) -> list[str]:
        mark = self.placement.mark()
        action()
        return [f"{one.method} {one.path}" for one in self.placement.since(mark)]

    def custom(self, uuid: str = ROOT) -> set[str]:
        """Custom traits, but for the owner's and the mark of a service with many nodes."""
        found = self.stranger.traits(uuid)
        return {name for name in found if name.startswith("CUSTOM_")} - {OWNER, tag_of(ROOT)}

    def totals(self, uuid: str = ROOT) -> dict[str, int]:
        return {name: one["total"] for name, one in self.stranger.inventory(uuid).items()}
