"""``computectl retire``: remove this host's providers from Placement.

The removal is the agent's own period, in which nothing is claimed: all that this host has reported
is released, with the agent's rules for drained inventory, attached roots and shared providers.
"""

import argparse
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from agent.errors import RegistryError
from agent.ownership.policy import DISABLED
from agent.period.attach import RootAwaited
from agent.period.rules import Rules
from agent.period.tracker import Tracker
from agent.period.traits import (
    COMPUTE_NODE,
    identifying_traits,
    is_service_tag,
    service_of,
    tag_of,
    tags_of_others,
)
from agent.registry.record import is_alive
from agent.reporting.condition import Condition, Severity, with_agents_step
from agent.reporting.reports import ENDS_PERIOD
from compute_registry.observed_service import ObservedService
from computectl.reading.services import Services, refuse_taken
from computectl.shared.command_session import Session
from computectl.shared.commands import TEXT, Columns, DrawnOrListed, Table, argument
from computectl.shared.errors import CommandError
from computectl.shared.screen import Screen, counted
from reportclient.client import Client
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.model import Provider
from reportclient.plain_text import ago, first_few, plain
from reportclient.provider_tree import NONE
from reportclient.reader import allocations_on, other_hosts, provider_by_name, subtree
from reportclient.root import Root

PROGRESS_EVERY = 60.0
"""Seconds between two lines of progress."""
LOOK_EVERY = 5.0
"""Seconds between two periods while children wait outside their tree, at most."""
RERUN = "providers removed so far stay removed; run the command again for the others"


@dataclass(frozen=True, slots=True)
class PlannedProvider:
    """A provider of a host to retire, of the tree of ``root`` (UUID).

    ``fate``: ``goes``; ``in use`` by ``users``; ``foreign``: another service created it, below a
    provider that is to be removed; ``shared``: it stays, since other hosts use it.
    """

    root: str
    provider: Provider
    fate: str = "goes"
    users: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    """Traits, aggregates and classes that others have put on it; they go with it."""

    def blocks(self) -> Iterator[Condition]:
        """Yield why the provider can't be removed."""
        name, uuid = f"{self.provider.name} ({self.provider.uuid})", self.provider.uuid
        if self.fate == "foreign":
            step = (
                "remove it with the service that created it, or take it over with "
                f"`computectl adopt {uuid}`"
            )
            yield Condition("was created by another service", step, name)
        if self.fate == "in use":
            step = "move these guests away, or delete them"
            yield Condition(f"is in use by {first_few(self.users)}", step, name)


@dataclass(frozen=True, slots=True)
class Retired:
    """The result of a retirement: the providers, those removed, and what went wrong."""

    host: str
    sentences: tuple[str, ...] = ()
    """About roots that are not removed, or were handed back."""
    providers: Sequence[PlannedProvider] = ()
    removed: frozenset[str] = frozenset()
    failed: Sequence[Condition] = ()
    confirmed: bool = True
    """Whether the removal was confirmed, with ``--yes`` or at the prompt."""
    shown: bool = False
    """Whether the list of providers was already printed, with the prompt."""

    def blocks(self) -> list[Condition]:
        """Return what prevents the retirement."""
        return [block for planned in self.providers for block in planned.blocks()]

    def going(self) -> list[str]:
        """Return the UUIDs of the providers to remove."""
        return [each.provider.uuid for each in self.providers if each.fate == "goes"]


class Retire(DrawnOrListed[Retired]):
    """Remove the providers of this host, or of a host that died for good, from Placement.

    For a host that is decommissioned. Stop and disable compute-agent first. Lists the providers
    and asks before it removes them. Removes nothing while a guest uses one of them, or while a
    provider of another service is below one of them. A sharing provider is removed with the last
    host that uses it. The host's identity stays in state_path: if compute-agent is started
    again, it reports under the same UUID.

    With HOST it runs on any machine, and removes the whole trees of the roots in the service
    record of HOST, which has to be down and forced down: Placement does not tell who created a
    provider below them. Sharing providers stay.

    With root_provider = attach the root stays. The children are emptied, taken out of the tree,
    and deleted only once nova-compute has read the tree again, since nova-compute fails if a
    provider that it has cached disappears.

    --hand-back is for a host that nova-compute will report again: inventory, children and
    allocations stay; only the traits that mark the root as this agent's are removed.
    """

    wraps = True
    examples = """\
  computectl retire                    list the providers, and ask
  computectl retire --yes              remove them without asking
  computectl retire -f json            a row for each provider; removes nothing
  computectl retire --hand-back        leave the root to nova-compute
  computectl retire host7              of another host, which died for good
"""
    arguments = (
        argument("host", nargs="?", metavar="HOST", help="another host; default: this one"),
        argument("-y", "--yes", action="store_true", help="do not ask"),
        argument("--hand-back", action="store_true", help="leave the root to nova-compute"),
        argument(
            "--nova-stopped",
            action="store_true",
            help="with root_provider = attach: nova-compute is stopped, so delete immediately",
        ),
    )

    def execute(self, options: argparse.Namespace) -> Retired:
        """Plan the removal, ask, and remove; refuse while an agent runs that would recreate it."""
        session = self.session()
        if options.host is not None:
            if options.hand_back or options.nova_stopped:
                step = "run it on that host, without HOST"
                raise CommandError("--hand-back and --nova-stopped need the host's agent", step)
            return self._dead(session, options)
        session.remaining_roots()
        with session.without_agent("stop compute-agent, and disable it, then retire the host"):
            _refuse_rivals(session)
            api = session.placement(writing=True)
            if options.hand_back:
                return _handed_back(session, api)
            rules = session.settings.rules
            if options.nova_stopped:
                rules = replace(rules, verify_every=0.0, remove_child_after=0.0)
            trackers = [released(session, root, api, rules) for root in session.roots()]
            planned = planned_of(session, trackers, api)
            return self._confirmed(
                planned, options, lambda: removed(trackers, planned, self.print_on_stderr)
            )

    def _confirmed(
        self, planned: Retired, options: argparse.Namespace, remove: Callable[[], Retired]
    ) -> Retired:
        """Remove what is planned, unless something blocks it or it is not confirmed."""
        if not planned.going() or planned.blocks():
            return planned
        can_ask = options.formatter == TEXT and self.app.stdin.isatty()
        if options.yes or (can_ask and self._agreed(planned, options)):
            return remove()
        return replace(planned, confirmed=False, shown=can_ask)

    def _dead(self, session: Session, options: argparse.Namespace) -> Retired:
        """Remove the trees of another host's record.  :raises CommandError: it may be alive."""
        services, host = Services(session), options.host
        record = services.registry.get_service(host)
        if session.settings.registry.access == "direct":
            step = "stop compute-agent, then run computectl retire without HOST"
            raise CommandError(f"{host} is this host, and has no registry", step)
        if record.attached:
            raise CommandError(
                f"{host} runs in attach mode: its root belongs to nova-compute",
                "delete its compute service in Nova",
            )
        down_after = session.settings.registry.down_after
        service = ObservedService(record, is_alive(record, down_after))
        if not record.forced_down:
            raise CommandError(
                f"{host} is {service.state}, and has to be down and forced down",
                f"if it died for good: computectl service force-down {host}; else run computectl "
                "retire on it",
            )
        if service.alive:
            raise CommandError(
                f"{host} is forced down, but sent a heartbeat {service.silence} ago",
                "if it died, wait until it counts as down ([registry] service_down_time: "
                f"{down_after:g} s); else run computectl retire on it",
            )
        api = session.placement(writing=True)
        providers = [each for root in record.roots for each in _whole_tree(root, api)]
        planned = Retired(host, providers=providers)
        return self._confirmed(planned, options, lambda: _deleted(planned, api))

    def _agreed(self, planned: Retired, options: argparse.Namespace) -> bool:
        self.print_drawn(planned, options)
        providers = counted(len(planned.going()), "provider")
        self.app.stdout.write(f"Remove {providers} from Placement? [y/N] ")
        self.app.stdout.flush()
        return self.app.stdin.readline().strip().lower() in ("y", "yes")

    def draw(self, answer: Retired, screen: Screen, options: argparse.Namespace) -> Iterator[str]:
        if answer.shown:
            yield ""
            return
        yield from answer.sentences
        stopped = answer.failed or answer.blocks()
        words = {
            "goes": "not removed:" if stopped else "remove",
            "shared": "keep, other hosts use it too:",
            "foreign": "created by another service:",
            "in use": "in use:",
            "removed": "removed",
        }
        for planned in answer.providers:
            provider = planned.provider
            word = words["removed" if provider.uuid in answer.removed else planned.fate]
            more = f", with {first_few(planned.others)} of others" if planned.others else ""
            name = screen.paint(plain(provider.name), "bold")
            yield f"  {word} {name} ({provider.uuid}){plain(more)}"
        if answer.removed and not answer.failed:
            verb = "is" if len(answer.removed) == 1 else "are"
            yield f"{counted(len(answer.removed), 'provider')} {verb} removed from Placement"
            yield f"to delete its service record: computectl service delete {plain(answer.host)}"
        if not answer.sentences and not answer.providers:
            known = " under the UUIDs that are known here" if answer.failed else ""
            yield f"Placement has nothing of this host{known}"

    def table(self, answer: Retired) -> Table:
        columns: Columns = {
            "provider": lambda row: row.provider.name,
            "uuid": lambda row: row.provider.uuid,
            "root": lambda row: row.root,
            "fate": lambda row: "removed" if row.provider.uuid in answer.removed else row.fate,
            "users": lambda row: list(row.users),
            "others": lambda row: list(row.others),
        }
        return columns, answer.providers

    def conditions(self, answer: Retired) -> Iterator[Condition]:
        """Yield what prevented the removal, and its errors."""
        blocks = answer.blocks()
        yield from (*blocks, *answer.failed)
        if blocks or not answer.confirmed:
            step = "run the command with --yes to remove them"
            if blocks:
                step = "run the command again once nothing prevents it"
            yield Condition("nothing was removed", step)


def _whole_tree(root: str, api: API) -> Iterator[PlannedProvider]:
    """Yield the providers of a tree, children first."""
    for item in reversed(subtree(root, api)):
        users = tuple(allocations_on(item["uuid"], api))
        provider = Provider(item["uuid"], item["name"], item["parent_provider_uuid"])
        yield PlannedProvider(root, provider, "in use" if users else "goes", users)


def _deleted(planned: Retired, api: API) -> Retired:
    """Delete the planned providers until Placement refuses one; return the plan with the result."""
    done = set[str]()
    for uuid in planned.going():
        try:
            Client(api).provider(uuid).delete()
        except PlacementError as err:
            failed = [Condition(with_agents_step(err), RERUN)]
            return replace(planned, removed=frozenset(done), failed=failed)
        done.add(uuid)
    return replace(planned, removed=frozenset(done))


def _refuse_rivals(session: Session) -> None:
    """:raises CommandError: another host has a root of this one, or may have it."""
    roots = session.roots()
    try:
        refuse_taken(session, *roots)
        answered = session.settings.registry.access != "direct"
    except RegistryError:
        answered = False
    for why in () if answered else filter(None, map(session.copied, roots)):
        raise CommandError(why, "nothing was removed")


def released(session: Session, root: str, api: API, rules: Rules) -> Tracker:
    """Return the tracker of a root (UUID) of which everything is released."""
    saved = session.saved_root(root, writing=True)
    own = Root(root, api, rules, store=saved)
    own.load_saved_view()
    tracker = Tracker(own, root, (), rules, saved=saved, ledger=saved.ledger, released=True)
    tracker.new_state = tracker.keeps = False
    return tracker


# -- what is to be removed


def planned_of(session: Session, trackers: list[Tracker], api: API) -> Retired:
    """Return the providers to remove, and sentences about roots that another service reports.

    Those are dropped from ``trackers``.
    """
    tag = tag_of(session.compute_id() or "") if len(trackers) > 1 else ""
    sentences, providers = [], list[PlannedProvider]()
    for tracker in list(trackers):
        tracker.root.refresh(api, time.monotonic(), tracker.ledger.claims.keys())
        others = list(_reported_by(tracker, tag))
        if others:
            trackers.remove(tracker)
            sentences += [f"{tracker.uuid} is not removed: {other}" for other in others]
        else:
            providers += reversed(list(_planned_providers(tracker, api)))
    host, failed = session.settings.host, list[Condition]()
    unknown = not (providers or sentences or session.settings.rules.attached)
    if unknown and (other := provider_by_name(host, api)) is not None:
        text = (
            f"Placement has {host} under another UUID, {other['uuid']}: nothing of it was removed"
        )
        step = f"if that is this host: computectl adopt {host}, then computectl retire"
        failed = [Condition(text, step, severity=Severity.WARNING)]
    return Retired(host, tuple(sentences), providers, failed=failed)


def _reported_by(tracker: Tracker, tag: str) -> Iterator[str]:
    """Yield sentences about services that report the root now; then it is not this host's.

    ``tag``: the service tag of a driver with several nodes.
    """
    root, rules = tracker.view.snapshot.get(tracker.uuid), tracker.rules
    if root is None or rules.attached:
        return
    if COMPUTE_NODE in root.traits and not identifying_traits(rules.owner_traits) & root.traits:
        yield (
            "it has COMPUTE_NODE, but no owner trait of this agent, so nova-compute may report it "
            "(if not, start compute-agent once)"
        )
    elif tag and tag not in root.traits:
        for other in sorted(tags_of_others(root.traits, tag)):
            yield f"the service {service_of(other)} reports it now"


def _planned_providers(tracker: Tracker, api: API) -> Iterator[PlannedProvider]:
    """Yield this host's providers, parents first, and other services' providers below them."""
    going, observed, attached = set[str](), tracker.view.snapshot, tracker.rules.attached
    for provider in observed.walk():
        uuid, users = provider.uuid, tuple[str, ...]()
        # The ledger may have a root that this agent reported before it was attached.
        is_owned = not attached if uuid == tracker.uuid else tracker.ledger.owns(uuid)
        if not is_owned and provider.parent_uuid not in going:
            continue
        going.add(uuid)
        if provider.inventory:
            users = tuple(allocations_on(uuid, api))
        if not is_owned:
            fate = "foreign"
        elif provider.shares and other_hosts(provider.aggregates, observed, api):
            fate = "shared"
        else:
            fate = "in use" if users else "goes"
        others = tracker.ledger.others_on(provider) if is_owned else NONE
        names = sorted(others.classes | others.traits | others.aggregates)
        yield PlannedProvider(tracker.uuid, provider, fate, users, tuple(names))


# -- removing it


def removed(
    trackers: Sequence[Tracker], planned: Retired, progress: Callable[[str], None]
) -> Retired:
    """Remove the planned providers from Placement; return the plan with the result.

    ``progress`` is called with sentences on children that wait outside their tree.
    """
    going, done, failed = set(planned.going()), set[str](), list[Condition]()
    for tracker in trackers:
        here = going & tracker.view.snapshot.providers.keys()
        conditions = _periods(tracker, here, progress)
        remaining = here & tracker.view.snapshot.providers.keys()
        done |= here - remaining
        failed += [replace(each, next_step=RERUN, severity=Severity.ERROR) for each in conditions]
        if not remaining and not conditions and tracker.saved is not None:
            tracker.saved.forget()  # else the ledger is needed to remove the others
        if tracker.root.schedule.unreachable is not None:
            break  # each further root would wait for the same timeout
    return replace(planned, removed=frozenset(done), failed=failed)


def _periods(tracker: Tracker, going: set[str], progress: Callable[[str], None]) -> list[Condition]:
    """Run periods until these providers are gone, or can't be removed; return why not."""
    shown_at = -inf
    while True:
        now = time.monotonic()
        report = tracker.period(now)
        awaited = isinstance(report.error, RootAwaited)
        remaining = going & tracker.view.snapshot.providers.keys()
        ended = ENDS_PERIOD if awaited else ()
        shared = tracker.view.snapshot.providers.keys() - going
        conditions = [
            it for it in report.conditions if it.kind not in ended and it.uuid not in shared
        ]
        if conditions or not remaining or not (report.done or tracker.rules.attached):
            return conditions
        if report.done:
            continue
        text, wait = counted(len(remaining), "provider"), tracker.rules.child_wait
        text += " stays" if len(remaining) == 1 else " stay"
        if wait is None or awaited:
            progress(
                f"{text} below the root, emptied: stop nova-compute, then computectl retire "
                "--nova-stopped"
            )
            return []
        rest = max(wait - (now - since) for since in tracker.root_rules.since.values())
        if now - shown_at >= PROGRESS_EVERY:
            shown_at = now
            progress(
                f"{text} outside the tree, emptied, for {ago(rest)}, until nova-compute has read "
                "the tree again"
            )
        time.sleep(min(max(rest, 0.1), LOOK_EVERY))


# -- leaving it to nova-compute


def _handed_back(session: Session, api: API) -> Retired:
    """Remove this agent's owner trait and service tag from each root; leave everything else.

    :raises reportclient.errors.PlacementError: a trait was not removed.
    """
    settings, sentences = session.settings, []
    owner_traits = identifying_traits(settings.rules.owner_traits)
    for root in session.roots():
        provider = Client(api).provider(root)
        listed = provider.listed()
        if listed is None:
            continue
        traits, name = provider.traits, plain(listed["name"])
        own = {trait for trait in traits if trait in owner_traits or is_service_tag(trait)}
        provider.remove_traits(*own)
        session.saved_root(root, writing=True).forget()
        sentences.append(
            f"{name} ({root}) is handed back to nova-compute: "
            f"{', '.join(sorted(own)) or 'no trait'} removed; "
            "inventory, children and allocations stay"
        )
        if DISABLED in traits:
            host = plain(settings.host)
            sentences.append(
                f"{name} is disabled in this agent's registry only: nova-compute enables it within "
                "seconds; to keep it disabled: "
                f"openstack compute service set --disable {host} nova-compute"
            )
    return Retired(settings.host, tuple(sentences))
