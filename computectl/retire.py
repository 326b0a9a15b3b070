"""``computectl retire``: take this host's providers out of Placement."""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from agent.period.service_tag import is_service_tag, service_of
from agent.period.traits import DISABLED, identifying_traits
from agent.reporting.conditions import Condition
from computectl.reading.retirement import NODE, Leaving, leaving
from computectl.reading.steps_out import StepsOut
from computectl.shared.command_session import Session
from computectl.shared.commands import DrawnOrListed, Table, argument
from computectl.shared.screen import Screen, counted
from reportclient.apply import apply
from reportclient.diff import diff
from reportclient.errors import PlacementError, Unreachable
from reportclient.http import API
from reportclient.plain_text import plain
from reportclient.reader import refresh
from reportclient.view import View

COLUMNS = ("provider", "uuid", "root", "fate", "users")


@dataclass(frozen=True, slots=True)
class Retired:
    """The result of a retirement: providers read, providers removed, errors."""

    host: str
    roots: list[Leaving]
    gone: frozenset[str] = frozenset()
    failed: list[PlacementError] = field(default_factory=list)
    wanted: bool = True
    """Whether somebody said yes."""
    said: tuple[str, ...] = ()
    """Lines for people: which roots were handed back."""
    shown: bool = False
    """Whether it was on the screen already, when somebody said no."""

    def blocks(self) -> Iterator[Condition]:
        """Return what prevents the retirement."""
        for root in self.roots:
            for one in root.leavers:
                yield from one.blocks()

    def conditions(self) -> Iterator[Condition]:
        """What is not well."""
        blocks = list(self.blocks())
        yield from blocks
        if blocks or not self.wanted:
            step = "" if blocks or self.shown else "--yes does it"
            yield Condition("nothing was removed", next_step=step)
        for err in self.failed:
            step = "what is gone is gone, run it again for the rest"
            yield Condition(str(err), next_step=step)

    @property
    def going(self) -> int:
        """How many providers."""
        return sum(one.fate == "goes" for root in self.roots for one in root.leavers)


class Retire(DrawnOrListed[Retired]):
    """Remove this host's providers from Placement.

    For a host that is decommissioned. Stop and disable compute-agent first. Shows what is to be
    removed, and asks; nothing is removed while a guest uses any of it, or while a provider of
    another service is below it. A sharing provider is removed with the last host that has it.
    The host's identity stays in state_path: started again, compute-agent reports under the
    same UUID.

    With root_provider = attach the root stays, and what is below it goes as a child that the
    agent removes does, since nova-compute fails on providers that it knows and that are gone:
    emptied, taken out of the tree, and deleted once nova-compute has read the tree again.

    --hand-back is for a host that nova-compute is to report again: its inventory, its children
    and all allocations stay, the traits that say that this agent owns the root go.
    """

    drawn = "words"
    examples = """\
  computectl retire                    show what is to be removed, and ask
  computectl retire --yes              do not ask
  computectl retire -f json            a row for each provider; nothing is removed
  computectl retire --hand-back        leave the root to nova-compute
"""
    arguments = (
        argument("-y", "--yes", action="store_true", help="do not ask"),
        argument("--hand-back", action="store_true", help="leave the root to nova-compute"),
        argument(
            "--nova-stopped",
            action="store_true",
            help="with root_provider = attach: nova-compute does not run, so delete at once",
        ),
    )

    def execute(self, session: Session, options: argparse.Namespace) -> Retired:
        """Look, ask, and remove it, while no agent runs that would make it again."""
        if not session.roots():
            raise session.no_compute_id()
        with session.without_agent("stop compute-agent, and disable it, then retire the host"):
            api = session.placement(writing=True)
            if options.hand_back:
                return _handed_back(session, api)
            planned = Retired(session.settings.host, _leaving_roots(session, api))
            if not planned.going or any(planned.blocks()):
                return planned
            can_ask = options.formatter == self.drawn and self.app.stdin.isatty()
            if options.yes or (can_ask and self._agreed(planned, options)):
                if session.settings.rules.attached and not options.nova_stopped:
                    return self._removed_in_steps(session, planned, api)
                return removed(session, planned, api)
            return replace(planned, wanted=False, shown=can_ask)

    def _agreed(self, planned: Retired, options: argparse.Namespace) -> bool:
        screen = Screen.for_stream(self.app.stdout)
        self.app.stdout.write(f"{self.draw(planned, screen, options)}\n")
        many = counted(planned.going, "provider")
        self.app.stdout.write(f"Remove {many} from Placement? [y/N] ")
        self.app.stdout.flush()
        return self.app.stdin.readline().strip().lower() in ("y", "yes")

    def _removed_in_steps(self, session: Session, planned: Retired, api: API) -> Retired:
        """Remove children of an attached root in steps, with progress on standard error."""
        gone: set[str] = set()
        failed: list[PlacementError] = []
        for root in planned.roots:
            kept = session.saved_root(root.root, writing=True)
            steps = StepsOut(root, kept, session.settings.rules.child_wait, api)
            for words in steps.run():
                self.app.stderr.write(f"{words}\n")
                self.app.stderr.flush()
            gone |= steps.gone
            failed += steps.failed
            if not steps.failed:
                kept.forget()
        return replace(planned, gone=frozenset(gone), failed=failed)

    def draw(self, answer: Retired, screen: Screen, options: argparse.Namespace) -> str:  # noqa: ARG002
        if answer.shown:
            return ""
        lines = [line for root in answer.roots for line in _words(root, answer.gone, screen)]
        lines += answer.said
        if answer.gone and not answer.failed:
            verb = "is" if len(answer.gone) == 1 else "are"
            lines += [
                f"{counted(len(answer.gone), 'provider')} {verb} removed from Placement",
                f"its record stays until: computectl service delete {plain(answer.host)}",
            ]
        return "\n".join(lines) or "Placement has nothing of this host"

    def table(self, answer: Retired) -> Table:
        return COLUMNS, [
            (
                one.provider.name,
                one.provider.uuid,
                root.root,
                "removed" if one.provider.uuid in answer.gone else one.fate,
                list(one.users),
            )
            for root in answer.roots
            for one in root.leavers
        ]

    def conditions(self, answer: Retired, options: argparse.Namespace) -> Iterator[Condition]:  # noqa: ARG002
        """Why not all is gone."""
        return answer.conditions()


def _leaving_roots(session: Session, api: API) -> list[Leaving]:
    """Return the leaving providers of each root that another service has not taken over."""
    settings, roots = session.settings, session.roots()
    service = session.compute_id() if len(roots) > 1 else None
    found = []
    for root in roots:
        kept = session.saved_root(root)
        kept.load()
        attached = settings.rules.attached
        owners = identifying_traits(settings.rules.owner_traits)
        found.append(
            leaving(root, kept.ledger, api, owners=owners, attached=attached, service=service)
        )
    return found


def removed(session: Session, planned: Retired, api: API) -> Retired:
    """Remove from Placement what was planned, and return it with what came of it."""
    gone: set[str] = set()
    failed: list[PlacementError] = []
    for root in planned.roots:
        outcome = apply(root.plan(), root.view(), api)
        errors = [*outcome.failed.values(), *filter(None, [outcome.stopped_by])]
        gone |= {one.provider.uuid for one in root.leavers} - set(outcome.view.snapshot.providers)
        failed += errors
        if not errors and not root.reported_by:
            session.saved_root(root.root, writing=True).forget()
        if isinstance(outcome.stopped_by, Unreachable):
            break  # each other root would wait for it as long
    return Retired(planned.host, planned.roots, frozenset(gone), failed)


def _handed_back(session: Session, api: API) -> Retired:
    """Take what says that a root is this agent's from each root; all else is as it was.

    :raises reportclient.errors.PlacementError: it was not done.
    """
    settings, said = session.settings, []
    mine = identifying_traits(settings.rules.owner_traits)
    for root in session.roots():
        view = refresh(View(), root, api)
        provider = view.snapshot.get(root)
        if provider is None:
            continue
        ours = {one for one in provider.traits if one in mine or is_service_tag(one)}
        if ours:
            edit = view.edit()
            edit.remove_traits(root, *ours)
            outcome = apply(diff(view.snapshot, edit.freeze(), names=view.names), view, api)
            for err in [*outcome.failed.values(), *filter(None, [outcome.stopped_by])]:
                raise err
        session.saved_root(root, writing=True).forget()
        name = plain(provider.name)
        said.append(
            f"{name} ({root}) is nova-compute's: {', '.join(sorted(ours)) or 'no trait'} removed, "
            "inventory, children and allocations stay"
        )
        if DISABLED in provider.traits:
            host = plain(settings.host)
            said.append(
                f"{name} is disabled here; nova-compute enables it within seconds, unless Nova has "
                f"it disabled too: openstack compute service set --disable {host} nova-compute"
            )
    return Retired(settings.host, [], said=tuple(said))


def _words(root: Leaving, gone: frozenset[str], screen: Screen) -> Iterator[str]:
    for mark in sorted(root.reported_by):
        if mark == NODE:
            yield (
                f"{root.root} is left: it is a compute node without an owner trait of this agent, "
                "and may be nova-compute's (if it is this agent's: start compute-agent once)"
            )
            continue
        yield f"{root.root} is left to the service {service_of(mark)}, which reports it now"
    for one in root.leavers:
        name = screen.paint(plain(one.provider.name), "bold")
        what = {
            "goes": "removed" if one.provider.uuid in gone else "remove",
            "shared": "leave, other hosts have it too:",
            "foreign": "somebody else's:",
            "in use": "in use:",
        }[one.fate]
        yield f"  {what} {name} ({one.provider.uuid})"
