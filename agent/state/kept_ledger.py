"""The ledger of one root, as it is kept between two lives of the agent."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from agent.ownership.ledger import (
    FILES,
    FORMER,
    Holders,
    Holding,
    Ledger,
    row_as_json,
    row_from_json,
)
from agent.state import files
from agent.state.roots import RootStore
from reportclient.model import canonical_uuid
from reportclient.snapshot import Snapshot

LOG = logging.getLogger(__name__)

KIND = "ledger"
SEEN = "seen"
"""The key of what is no provider's; it is there once a ledger was begun."""
_DAMAGE = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(slots=True)
class KeptLedger:
    """A document for each provider, so that a small change is a small write."""

    store: RootStore
    root: str
    kept: Ledger = field(default_factory=Ledger)

    def load(self, view: Snapshot, made: frozenset[str]) -> Ledger:
        """What was kept; one that has not begun, and a line in the log, if it can't be used.

        Without it nothing is taken away that is not provably this host's.  ``view`` and
        ``made`` are of the version before, whose files are read where there is no ledger.
        """
        found = self.store.load(self.root)
        try:
            if not found:
                # A view is kept once Placement was written, and that not before the ledger.
                lost = self.store.has_lost(self.root) or (
                    self.store.is_there() and self.root in view
                )
                self.kept = self._lost("is not there") if lost else self._before(view, made)
            else:
                self.kept = _ledger(
                    {key: one for (kind, key), one in found.items() if kind == KIND}
                )
        except _DAMAGE as err:
            self.kept = self._lost(f"can't be used ({err})")
        return self.kept

    def _lost(self, what: str) -> Ledger:
        LOG.warning(
            "The ledger of the root %s in %s %s: what is asserted anew is this agent's again, "
            "and nothing else is taken away",
            self.root,
            self.store.path,
            what,
        )
        return Ledger(lost=True)

    def keep(self, ledger: Ledger) -> bool:
        """Keep it if it changed; a full disk stops nobody from reporting.

        That is told once, and tried again in each period.  False: it is not on disk.
        """
        if ledger is self.kept or not ledger.begun:
            return True
        changed: dict[tuple[str, str], Any] = {
            (KIND, uuid): row_as_json(row)
            for uuid, row in ledger.holders.items()
            if row is not self.kept.holders.get(uuid) and row != self.kept.holders.get(uuid)
        }
        gone = [(KIND, uuid) for uuid in self.kept.holders if uuid not in ledger.holders]
        if ledger.seen != self.kept.seen or not self.kept.begun:
            changed[KIND, SEEN] = sorted(ledger.seen)
        if not self.store.save(self.root, changed, gone) and not self._keep_all(ledger):
            return False
        self.kept = ledger
        return True

    def forget(self) -> None:
        """Keep nothing of this root any more."""
        self.store.forget(self.root)

    def _keep_all(self, ledger: Ledger) -> bool:
        rows = {(KIND, uuid): row_as_json(row) for uuid, row in ledger.holders.items()}
        return self.store.replace(self.root, {**rows, (KIND, SEEN): sorted(ledger.seen)})

    # -- files of the version before

    def _before(self, view: Snapshot, made: frozenset[str]) -> Ledger:
        ledger = Ledger()
        for uuid in made:
            provider = view.get(uuid)
            if provider is not None:
                held = Holding(True, frozenset(provider.inventory))
                ledger = ledger.adding(FORMER, uuid, held)
        parts = self._read(f"parts-{self.root}.json", json.loads)
        for driver, claims in parts.get("drivers", {}).items():
            for kind, uuid, name in claims:
                ledger = ledger.adding(f"driver:{driver}", uuid, _claim(kind, name))
        for uuid, one in self._read(f"provider-config-{self.root}.json", _behind_header).items():
            held = Holding(False, frozenset(one["classes"]), frozenset(one["traits"]))
            ledger = ledger.adding(FILES, canonical_uuid(uuid, "provider"), held)
        return Ledger(ledger.holders, frozenset(parts.get("added", ())), begun=bool(parts))

    def _read(self, name: str, parsed: Callable[[bytes], Any]) -> Mapping[str, Any]:
        if self.store.path is None:
            return {}
        try:
            found: Mapping[str, Any] = parsed(files.read(Path(self.store.path.parent, name)))
        except (OSError, ValueError, RecursionError):
            return {}
        return found


def _ledger(rows: Mapping[str, Any]) -> Ledger:
    seen = frozenset[str](map(str, rows[SEEN]))
    holders: dict[str, Holders] = {
        canonical_uuid(uuid, "provider"): row_from_json(row)
        for uuid, row in rows.items()
        if uuid != SEEN
    }
    return Ledger(holders, seen, begun=True)


def _behind_header(raw: bytes) -> Any:
    return json.loads(raw.partition(b"\n")[2])


def _claim(kind: str, name: str) -> Holding:
    match kind:
        case "class":
            return Holding(classes=frozenset({name}))
        case "trait":
            return Holding(traits=frozenset({name}))
        case "aggregate":
            return Holding(aggregates=frozenset({name}))
        case _:
            return Holding(provider=True)
