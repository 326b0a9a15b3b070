"""A host with provider files beside small drivers, on the fake or the real Placement."""

from pathlib import Path
from typing import Any, Self

from agent.period.traits import tag_of
from agent.reporting.reports import Report
from drivers.api import ComputeDriver
from tests.agents import OWNER, ROOT, Agent
from tests.servers.placement import RealPlacement
from tests.stranger import FakePlacement

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


class Host(Agent):
    """One agent with provider files; it begins with :meth:`start`."""

    def __init__(
        self, placement: FakePlacement | RealPlacement, directory: Path, *drivers: ComputeDriver
    ) -> None:
        (directory / "state").mkdir()
        super().__init__(placement, *drivers, state=directory / "state")
        self.files = directory / "provider_config"  # read with the start
        self.files.mkdir()
        self.stranger = placement.stranger

    def write(self, *entries: str, name: str = "a.yaml") -> Path:
        assert self.files is not None
        path = self.files / name
        path.write_text(HEAD + "".join(entries) if entries else HEAD + "  []\n")
        return path

    def reads(self, *entries: str, name: str = "a.yaml") -> Self:
        """Write a file, and have it read as after SIGHUP."""
        self.write(*entries, name=name)
        self.reload()
        return self

    def start(self) -> Self:
        """As after any end of the process: everything that it knew is gone."""
        return self.restart()

    def period(self, after: float = 10.0, **options: Any) -> Report:
        return super().period(after, **options)

    def periods(self, after: float = 10.0, **options: Any) -> list[Report]:
        return super().periods(after, **options)

    def custom(self, uuid: str = ROOT) -> set[str]:
        """Custom traits, but for the owner's and the mark of a service with many nodes."""
        found = self.stranger.traits(uuid)
        return {name for name in found if name.startswith("CUSTOM_")} - {OWNER, tag_of(ROOT)}

    def totals(self, uuid: str = ROOT) -> dict[str, int]:
        return {name: one["total"] for name, one in self.stranger.inventory(uuid).items()}
