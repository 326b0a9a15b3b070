"""What provider files assert on one tree.  Pure.

Provider files are a manager like a driver: drivers do not see what the files add, a driver's
inventory takes precedence, and what is removed from the files is released.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from agent.ownership.ledger import FILES, Holding, Ledger
from agent.ownership.policy import Policy
from agent.ownership.statement import Assertion, Statement
from agent.provider_config.entries import Entries, Entry, Key
from reportclient.model import Provider
from reportclient.plan import Problem
from reportclient.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Asserted:
    """The files' statement; ``met`` are the keys of entries whose provider exists."""

    statement: Statement = field(default_factory=lambda: Statement(FILES))
    problems: tuple[Problem, ...] = ()
    met: frozenset[Key] = frozenset()


def asserted(entries: Entries, tree: Snapshot, policy: Policy, ledger: Ledger) -> Asserted:
    """Return what the entries assert on ``tree``, the one that the drivers desire."""
    if not entries.all():
        return Asserted()
    return _Asserting(entries, tree, policy, ledger).asserted()


@dataclass(slots=True)
class _Asserting:
    entries: Entries
    tree: Snapshot
    policy: Policy
    ledger: Ledger
    problems: list[Problem] = field(default_factory=list)
    met: set[Key] = field(default_factory=set)

    def asserted(self) -> Asserted:
        assertions: dict[str, Assertion] = {}
        places: dict[tuple[str, str], str] = {}
        for provider, entry in self._targets():
            if self._is_foreign(provider):
                self._problem(provider, f"{entry.place}: not changed: owned by another service")
                continue
            holding = Holding(False, frozenset(entry.inventory), entry.traits)
            added = replace(provider, inventory=entry.inventory)
            assertions[provider.uuid] = Assertion(holding, added)
            places |= {(provider.uuid, name): at for name, at in entry.places.items()}
        return Asserted(
            Statement(FILES, assertions, places=places),
            tuple(self.problems),
            frozenset(self.met),
        )

    def _targets(self) -> Iterator[tuple[Provider, Entry]]:
        """Yield providers with their entries, the root first."""
        by_uuid = self._explicit()
        root = self.policy.root
        if self.entries.default is not None and root in self.tree:
            by_uuid.setdefault(root, self.entries.default)
        for uuid, entry in sorted(by_uuid.items(), key=lambda item: item[0] != root):
            yield self.tree.providers[uuid], entry

    def _explicit(self) -> dict[str, Entry]:
        """Return the entries of existing providers by UUID, without that of $COMPUTE_NODE."""
        by_uuid: dict[str, Entry] = {}
        for entry in self.entries.explicit:
            provider = self._provider_of(entry)
            if provider is None:
                continue
            self.met.add(entry.key)
            first = by_uuid.setdefault(provider.uuid, entry)
            if first is not entry:
                text = (
                    f"{entry.place} ({entry.by} {entry.identifier}) ignored: "
                    f"{first.place} ({first.by} {first.identifier}) describes this provider, too; "
                    "merge the two entries"
                )
                self._problem(provider, text)
        return by_uuid

    def _provider_of(self, entry: Entry) -> Provider | None:
        """Return the provider of an entry; as in Nova, a name may be a UUID and vice versa."""
        by_name, by_uuid = self.tree.named(entry.identifier), self.tree.get(entry.identifier)
        return by_name or by_uuid if entry.by == "name" else by_uuid or by_name

    def _is_foreign(self, provider: Provider) -> bool:
        if provider.uuid in self.policy.foreign:
            return True
        is_root = provider.uuid == self.policy.root
        return self.policy.attached and (is_root or not self.ledger.is_ours(provider.uuid))

    def _problem(self, provider: Provider, text: str) -> None:
        self.problems.append(Problem(provider.uuid, provider.name, text))
