"""What all roots of the service share: the files, and which entries wait for a provider."""

import logging
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from agent.opts import PROVIDER_CONFIG_LOCATION
from agent.provider_config.entries import Entries, Entry, Key
from agent.provider_config.files import KEPT, ProviderFiles
from agent.state.document import Document
from agent.told.reports import Report

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Additions:
    """``holding``: what was applied stays as it is, whatever the files say."""

    files: ProviderFiles = field(default_factory=lambda: ProviderFiles(Path()))
    holding: bool = False
    _met: dict[str, frozenset[Key]] = field(default_factory=dict)
    _told: set[Key] = field(default_factory=set)

    @classmethod
    def of(cls, location: Path, state_path: Path, *, writing: bool = True) -> "Additions":
        """Those of the agent with this state directory; nothing is read yet."""
        required = str(location) != PROVIDER_CONFIG_LOCATION
        kept = Document(state_path / KEPT, writing=writing)
        return cls(ProviderFiles(location, required, kept))

    @property
    def entries(self) -> Entries | None:
        """What the files say; ``None`` if nobody knows, or it is not to count."""
        return None if self.holding else self.files.entries

    def degraded(self) -> dict[str, str]:
        """What is wrong with the files, by part; nothing where they are not asked."""
        return {} if self.holding else self.files.degraded()

    def meet(self, root: str, met: frozenset[Key]) -> None:
        """Which entries found their provider in the tree of ``root``."""
        self._met[root] = met

    def absent(self, roots: Collection[str]) -> list[Entry]:
        """Entries whose provider is in no tree; none before each of the trees was seen."""
        if self.files.entries is None or not self._seen(roots):
            return []
        met = frozenset[Key]().union(*(self._met[root] for root in roots))
        return [entry for entry in self.files.entries.explicit if entry.key not in met]

    def tell_absent(self, roots: Collection[str], reports: Sequence[Report]) -> None:
        """Each one once, and once more when it was there meanwhile."""
        if not self._seen(roots):
            return
        absent = self.absent(roots)
        self._told &= {entry.key for entry in absent}
        if any(report.error or report.driver_errors for report in reports):
            return  # it may be a driver's that could not be asked
        for entry in absent:
            if entry.key not in self._told:
                LOG.warning("%s", waits(entry))
                self._told.add(entry.key)

    def _seen(self, roots: Collection[str]) -> bool:
        return bool(roots) and self._met.keys() >= set(roots)


def waits(entry: Entry) -> str:
    """For an operator."""
    return (
        f"{entry.place}: no provider has the {entry.by} {entry.identifier}: "
        "its entry waits until there is one"
    )


def notes(additions: Additions, roots: Collection[str]) -> Iterator[str]:
    """What should be known, and is nothing to mend at once."""
    yield from map(str, additions.files.warnings)
    yield from map(waits, additions.absent(roots))
