"""Audit this host: its trees against its ledger and its record in the registry.

Takes for each root the GETs of a restarted agent (1 if nothing changed, 2 with aggregates), then
1 for each provider; 1 more if there are several roots.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby

from agent.errors import UnknownHost
from agent.ownership.ledger import Ledger, joined
from agent.ownership.policy import DISABLED
from agent.period.attach import root_rules
from agent.period.traits import COMPUTE_NODE, tag_of
from agent.provider_config.answer import files_answer
from agent.provider_config.entries import Entries
from agent.provider_config.files import ProviderFiles
from agent.registry.checks import HeartbeatMessage
from agent.reporting.condition import Condition, Severity
from agent.state.saved_root import SavedRoot
from compute_registry.observed_placement import AT_ONCE, compute_nodes
from compute_registry.observed_service import ABSENT, Roots, observed_services
from computectl.auditing import checks
from computectl.auditing.checks import ALLOCATIONS, ORPHANS, OWNERSHIP, REPORTING, STATUS, Audit
from computectl.reading.services import Services
from computectl.shared.command_session import Session
from computectl.shared.errors import CommandError
from computectl.status import observed_status
from reportclient.candidates.asking import disabled_roots
from reportclient.http import API
from reportclient.model import Provider
from reportclient.reader import Listed, providers_with_trait, refresh
from reportclient.snapshot import Snapshot

OWNER_NOVA = "OWNER_NOVA"
"""The trait of roots that Nova 34 schedules to."""


@dataclass(slots=True)
class HostAudit:
    """The audit of this host; sends GETs only."""

    session: Session
    api: API
    audit: Audit = field(default_factory=lambda: Audit(hosts=1))

    def run(self) -> Audit:
        """Make all checks.

        :raises CommandError: this host has no root provider yet.
        :raises reportclient.errors.PlacementError: a tree could not be read.
        """
        roots = self.session.remaining_roots()
        trees = {}
        with ThreadPoolExecutor(AT_ONCE, thread_name_prefix="get") as pool:
            for root in roots:
                trees[root] = self._tree(root, self.session.saved_root(root), pool)
        with self.audit.recording_failures(REPORTING, STATUS):
            self._record(trees)
        own = self.session.compute_id()
        if own is not None and len(roots) > 1:
            self._orphans(providers_with_trait(tag_of(own), self.api), roots)
        return self.audit

    def _tree(self, root: str, saved: SavedRoot, pool: Executor) -> Snapshot:
        before = saved.load()
        view = refresh(before, root, self.api, at_once=AT_ONCE)
        tree, ledger = view.snapshot, saved.ledger
        if root not in tree and not self.session.reports(root):
            return tree
        if root not in tree:
            text = "this root provider is not in Placement"
            self.audit.add(REPORTING, [self._not_reported(text, root)])
            return tree
        others = {uuid for uuid in view.sharing if not ledger.owns(uuid)}
        own_providers = [provider for provider in tree.walk() if provider.uuid not in others]
        self.audit.providers += len(own_providers)
        self._ownership(root, own_providers, tree, ledger)
        if view.restored:
            text = "Placement was restored or emptied: its guests may have no allocations any more"
            step = "computectl status names them; nova-manage placement heal_allocations"
            self.audit.add(ALLOCATIONS, [Condition(text, step, root, Severity.WARNING)])
        with self.audit.recording_failures(ALLOCATIONS):
            listed = [{"uuid": provider.uuid, "name": provider.name} for provider in own_providers]
            wrong = checks.judged(
                listed, self.api, pool, lambda item: tree.providers[item["uuid"]].inventory
            )
            for item, conditions in wrong:
                self.audit.add(ALLOCATIONS, conditions, item["uuid"])
        return tree

    def _ownership(
        self, root: str, providers: Iterable[Provider], tree: Snapshot, ledger: Ledger
    ) -> None:
        if not ledger.known:
            self.audit.unknown[OWNERSHIP] = f"this host has no ledger of the root {root}"
            return
        settings = self.session.settings
        policy, path = root_rules(settings.rules).policy(root), settings.state_path
        files = ProviderFiles.from_location(settings.provider_config, path, writing=False)
        files.load_files()
        entries = files.entries or Entries()
        # A trait that was there before it was declared is not in the ledger.
        declared = files_answer(entries, tree, policy, ledger).answer.reported
        for provider in providers:
            if provider.uuid == root and not policy.owns_root:
                continue  # the root belongs to nova-compute
            entry = declared.get(provider.uuid)
            traits = frozenset[str]() if entry is None else entry.claims.traits
            self.audit.add(OWNERSHIP, unowned(provider, ledger, traits), provider.uuid)

    def _record(self, trees: dict[str, Snapshot]) -> None:
        settings, services = self.session.settings, Services(self.session)
        try:
            record = services.registry.get_service(settings.host)
        except UnknownHost:
            text = "the registry has no service record of this host"
            self.audit.add(REPORTING, [self._not_reported(text, settings.host)])
            return
        own = {root: tree.providers[root] for root, tree in trees.items() if root in tree}
        present = {root: it.name for root, it in own.items() if COMPUTE_NODE in it.traits}
        disabled = frozenset(root for root, it in own.items() if DISABLED in it.traits)
        unknown = [root for root in record.roots if root not in trees]
        for root in unknown:
            present |= compute_nodes(self.api, uuid=root)
        if unknown:
            disabled |= disabled_roots(self.api)
        records = [record]
        if not record.roots and settings.registry.access != "direct":
            report = HeartbeatMessage(settings.host, record.address or "none", roots=tuple(trees))
            holders = services.fleet.holders(report)
            records += [each for each in holders if each.host != settings.host]
        down_after, roots = settings.registry.down_after, Roots(disabled, present)
        service = observed_services(records, down_after, roots)[0]
        # _tree has reported its own missing roots, with what the agent does now.
        missed = trees.keys() - own.keys()
        self.audit.add_service(service, *([ABSENT] if missed.issuperset(service.absent) else []))

    def _not_reported(self, text: str, subject: str) -> Condition:
        """Return the finding that something of this host is missing, by what its agent does now."""
        try:
            agent = observed_status(self.session)
        except CommandError:
            agent = None
        if agent is None or not agent.alive:
            step = "start compute-agent; computectl plan shows what it will report"
        elif agent.written.first_due is None:
            step = "computectl status shows why: compute-agent runs"
        else:
            wait = f"wait for compute-agent: {agent.last_period}"
            return Condition(text, wait, subject, Severity.INFO)
        return Condition(text, step, subject)

    def _orphans(self, marked: Iterable[Listed], roots: Iterable[str]) -> None:
        for item in marked:
            if item["uuid"] not in roots:
                text = "has this agent's service tag, but is not one of its nodes"
                step = (
                    "if another service reports it, remove the tag; to see what it has: "
                    f"computectl tree {item['uuid']}"
                )
                self.audit.add(ORPHANS, [Condition(text, step, item["name"])], item["uuid"])


def unowned(provider: Provider, ledger: Ledger, declared: frozenset[str]) -> Iterator[Condition]:
    """Yield findings on parts of a provider that no owner of this host asserts.

    ``declared`` are the traits that provider files have for it.
    """
    if not ledger.owns(provider.uuid):
        text = "was created by another service, so this agent does not change it"
        step = f"to take it over: computectl adopt {provider.uuid}"
        yield Condition(text, step, provider.name, Severity.INFO)
        return
    claims = joined(ledger.claims_on(provider.uuid).values())
    # The agent sets the status between two periods, too; another check compares it.
    traits = sorted(provider.traits - claims.traits - declared - {DISABLED})
    classes = sorted(provider.inventory.keys() - claims.classes)
    remove = "to remove it: openstack resource provider"
    for keep, group in groupby(sorted(traits, key=_how_to_keep), _how_to_keep):
        text = f"no driver or provider file asserts {', '.join(group)}"
        step = f"{remove} trait set {provider.uuid} with a --trait for each that stays: it sets all"
        yield Condition(text, f"{keep}; {step}", provider.name, Severity.WARNING)
    for class_name in classes:  # each by itself: without a class the command deletes all inventory
        text = f"no driver or provider file asserts its inventory of {class_name}"
        step = f"{remove} inventory delete {provider.uuid} --resource-class {class_name}"
        keep = "it stays until it is removed"
        if class_name.startswith("CUSTOM_"):
            keep += ", and a provider file sets it only after that"
        yield Condition(text, f"{keep}; {step}", provider.name, Severity.WARNING)


def _how_to_keep(name: str) -> str:
    """Return how this host asserts a trait; provider files take custom ones only."""
    if name.startswith("CUSTOM_"):
        return "to keep it, declare it in a provider file"
    if name == OWNER_NOVA:
        return f"to keep it, add {name} to [compute] owner_trait"
    return "it stays until it is removed: only a driver can report it"
