"""``computectl retire``: remove this host's providers from Placement."""

import argparse
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from agent.ownership.policy import DISABLED
from agent.period.attach import LeavingChildren
from agent.period.traits import identifying_traits, is_service_tag, service_of
from agent.reporting.reports import Condition, with_agents_step
from agent.state.saved_root import SavedRoot
from computectl.reading.retirement import NODE, Leaving, leaving
from computectl.shared.command_session import Session
from computectl.shared.commands import TEXT, Columns, DrawnOrListed, Table, argument
from computectl.shared.screen import Screen, counted
from reportclient.apply import apply
from reportclient.client import Client
from reportclient.diff import diff
from reportclient.errors import Conflict, PlacementError, Unreachable
from reportclient.http import API
from reportclient.plain_text import ago, plain
from reportclient.reader import refresh

MOST_CONFLICTS = 5
PROGRESS_EVERY = 60.0
"""Seconds between two lines of progress."""


@dataclass(frozen=True, slots=True)
class Retired:
    """The result of a retirement: the providers of each root, those removed, and errors."""

    host: str
    roots: list[Leaving]
    gone: frozenset[str] = frozenset()
    failed: list[PlacementError] = field(default_factory=list)
    confirmed: bool = True
    """Whether the removal was confirmed, with ``--yes`` or at the prompt."""
    handed_back: tuple[str, ...] = ()
    """Sentences about the roots that were handed back to nova-compute."""
    shown: bool = False
    """Whether the list of providers was already printed, with the prompt."""

    def blocks(self) -> Iterator[Condition]:
        """Return what prevents the retirement."""
        for root in self.roots:
            for leaver in root.leavers:
                yield from leaver.blocks()

    @property
    def going(self) -> int:
        """Return the number of providers to remove."""
        return sum(len(root.going) for root in self.roots)


class Retire(DrawnOrListed[Retired]):
    """Remove this host's providers from Placement.

    For a host that is decommissioned. Stop and disable compute-agent first. Lists the providers
    and asks before it removes them. Removes nothing while a guest uses one of them, or while a
    provider of another service is below one of them. A sharing provider is removed with the last
    host that uses it. The host's identity stays in state_path: if compute-agent is started
    again, it reports under the same UUID.

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
"""
    arguments = (
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
        session.roots_or_none_left()
        with session.without_agent("stop compute-agent, and disable it, then retire the host"):
            api = session.placement(writing=True)
            if options.hand_back:
                return _handed_back(session, api)
            planned = Retired(session.settings.host, _leaving_roots(session, api))
            if not planned.going or any(planned.blocks()):
                return planned
            can_ask = options.formatter == TEXT and self.app.stdin.isatty()
            if options.yes or (can_ask and self._agreed(planned, options)):
                in_steps = session.settings.rules.attached and not options.nova_stopped
                return removed(session, planned, api, self.print_on_stderr if in_steps else None)
            return replace(planned, confirmed=False, shown=can_ask)

    def _agreed(self, planned: Retired, options: argparse.Namespace) -> bool:
        self.print_drawn(planned, options)
        providers = counted(planned.going, "provider")
        self.app.stdout.write(f"Remove {providers} from Placement? [y/N] ")
        self.app.stdout.flush()
        return self.app.stdin.readline().strip().lower() in ("y", "yes")

    def draw(self, answer: Retired, screen: Screen, options: argparse.Namespace) -> Iterator[str]:  # noqa: ARG002
        if answer.shown:
            yield ""
            return
        lines = [line for root in answer.roots for line in _lines(root, answer, screen)]
        lines += answer.handed_back
        if answer.gone and not answer.failed:
            verb = "is" if len(answer.gone) == 1 else "are"
            lines += [
                f"{counted(len(answer.gone), 'provider')} {verb} removed from Placement",
                f"to delete its service record: computectl service delete {plain(answer.host)}",
            ]
        yield from lines or ["Placement has nothing of this host"]

    def table(self, answer: Retired) -> Table:
        columns: Columns = {
            "provider": lambda row: row[1].provider.name,
            "uuid": lambda row: row[1].provider.uuid,
            "root": lambda row: row[0],
            "fate": lambda row: "removed" if row[1].provider.uuid in answer.gone else row[1].fate,
            "users": lambda row: list(row[1].users),
        }
        return columns, [(root.root, leaver) for root in answer.roots for leaver in root.leavers]

    def conditions(self, answer: Retired) -> Iterator[Condition]:
        """Yield what prevented the removal, and its errors."""
        blocks = list(answer.blocks())
        yield from blocks
        if blocks or not answer.confirmed:
            step = "" if blocks or answer.shown else "run the command with --yes to remove them"
            yield Condition("nothing was removed", next_step=step)
        for err in answer.failed:
            step = "providers removed so far stay removed; run the command again for the others"
            yield Condition(with_agents_step(err), next_step=step)


def _leaving_roots(session: Session, api: API) -> list[Leaving]:
    """Return the providers to remove of each root; none of a root that another service reports."""
    settings, roots = session.settings, session.roots()
    service = session.compute_id() if len(roots) > 1 else None
    leaving_roots = []
    for root in roots:
        saved = session.saved_root(root)
        saved.load()
        leaving_roots.append(leaving(root, saved.ledger, api, settings.rules, service))
    return leaving_roots


def removed(
    session: Session,
    planned: Retired,
    api: API,
    progress: Callable[[str], None] | None = None,
) -> Retired:
    """Remove the planned providers from Placement; return the plan with the result.

    ``progress``: remove children of attached roots in steps, and call it with sentences on these.
    """
    gone: set[str] = set()
    failed: list[PlacementError] = []
    for root in planned.roots:
        saved = session.saved_root(root.root, writing=True)
        gone_here, errors = removed_of(
            root, saved, session.settings.rules.child_wait, api, progress
        )
        gone |= gone_here
        failed += errors
        if gone_here == root.going and not errors and not root.reported_by:
            saved.forget()  # else the ledger is needed to remove the others
        if any(isinstance(err, Unreachable) for err in errors):
            break  # each further root would wait for the same timeout
    return replace(planned, gone=frozenset(gone), failed=failed)


def removed_of(
    leaving_root: Leaving,
    saved: SavedRoot,
    wait: float | None,
    api: API,
    progress: Callable[[str], None] | None,
) -> tuple[set[str], list[PlacementError]]:
    """Remove the providers of a root; return their UUIDs, and the errors.

    With ``progress`` in the steps of :mod:`agent.period.attach`: ``wait`` seconds before a delete;
    ``None``: never delete.
    """
    uuid, view = leaving_root.root, saved.load()
    going, gone = leaving_root.going, set[str]()
    steps = LeavingChildren()
    last_progress, conflicts = 0.0, 0
    while True:
        try:
            view = refresh(view, uuid, api, ours=saved.ledger.holders.keys())
        except PlacementError as err:
            return gone, [err]
        now, observed = time.monotonic(), view.snapshot
        desired = observed.with_changes({child: None for child in going if child in observed})
        if progress is not None:
            desired = steps.with_next_steps(observed, desired, wait, now)
        root = observed.get(uuid)
        if root is not None and leaving_root.traits is not None:
            desired = desired.with_changes({uuid: replace(root, traits=leaving_root.traits)})
        outcome = apply(diff(observed, desired, names=view.names), view, api)
        view = outcome.view
        saved.save(uuid, view)  # an interrupted command can be continued
        failed: list[PlacementError] = list(outcome.failed.values())
        if isinstance(outcome.stopped_by, Conflict) and conflicts < MOST_CONFLICTS and not failed:
            conflicts += 1  # nova-compute wrote meanwhile: read again
            continue
        failed += filter(None, [outcome.stopped_by])
        gone = going - set(view.snapshot.providers)
        if gone == going or failed or progress is None:
            return gone, failed
        left = counted(len(going) - len(gone), "provider")
        verb = "stays" if len(going) - len(gone) == 1 else "stay"
        if wait is None:
            progress(
                f"{left} {verb} below the root, emptied: stop nova-compute, then computectl retire "
                "--nova-stopped"
            )
            return gone, failed
        if not outcome.done:
            rest = max(wait - (now - began) for began in steps.since.values())
            if now - last_progress >= PROGRESS_EVERY or not last_progress:
                last_progress = now
                progress(
                    f"{left} {verb} outside the tree, emptied, for {ago(rest)}, until nova-compute "
                    "has read the tree again"
                )
            time.sleep(min(max(rest, 0.1), 5.0))


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
        ours = {trait for trait in traits if trait in owner_traits or is_service_tag(trait)}
        provider.remove_traits(*ours)
        session.saved_root(root, writing=True).forget()
        sentences.append(
            f"{name} ({root}) is handed back to nova-compute: "
            f"{', '.join(sorted(ours)) or 'no trait'} removed; "
            "inventory, children and allocations stay"
        )
        if DISABLED in traits:
            host = plain(settings.host)
            sentences.append(
                f"{name} is disabled in this agent's registry only: nova-compute enables it within "
                "seconds; to keep it disabled: "
                f"openstack compute service set --disable {host} nova-compute"
            )
    return Retired(settings.host, [], handed_back=tuple(sentences))


def _lines(root: Leaving, answer: Retired, screen: Screen) -> Iterator[str]:
    planned = "not removed:" if answer.failed or any(answer.blocks()) else "remove"
    for mark in sorted(root.reported_by):
        if mark == NODE:
            yield (
                f"{root.root} is not removed: it has COMPUTE_NODE, but no owner trait of this "
                "agent, so nova-compute may report it (if not, start compute-agent once)"
            )
            continue
        yield f"{root.root} is not removed: the service {service_of(mark)} reports it now"
    for leaver in root.leavers:
        name = screen.paint(plain(leaver.provider.name), "bold")
        what = {
            "goes": "removed" if leaver.provider.uuid in answer.gone else planned,
            "shared": "keep, other hosts use it too:",
            "foreign": "created by another service:",
            "in use": "in use:",
        }[leaver.fate]
        yield f"  {what} {name} ({leaver.provider.uuid})"
