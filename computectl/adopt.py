"""``computectl adopt``: take over a provider that exists in Placement for this host.

A root provider becomes this host's root: its UUID is written to ``compute_id``. A provider below
this host's root is added to the ledger.
"""

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter

from agent.nodes.identity import FILE_NAME, IdentityError, replace_compute_id
from agent.ownership.ledger import ADOPTED, adopted_on
from computectl.reading.services import refuse_taken
from computectl.reading.trees import find_provider
from computectl.shared.command_session import Session
from computectl.shared.commands import Columns, DrawnOrListed, Table, argument
from computectl.shared.errors import CommandError
from computectl.shared.screen import Screen
from reportclient.http import API
from reportclient.model import Provider
from reportclient.plain_text import plain
from reportclient.reader import Listed, provider_by_uuid, read_part


@dataclass(frozen=True, slots=True)
class Adopted:
    """A provider; ``before``: the host's previous UUID, or of a child the UUID of its root."""

    name: str
    uuid: str
    before: str | None
    below: bool = False
    """Whether the provider is below this host's root."""
    was_owned: bool = False
    copied: bool = False
    """Whether another machine had saved what is known of the root."""


COLUMNS: Columns = {
    "provider": attrgetter("name"),
    "uuid": attrgetter("uuid"),
    "before": attrgetter("before"),
}


class Adopt(DrawnOrListed[Adopted]):
    """Take over an existing provider in Placement for this host.

    Adopt a root provider if the host lost its compute_id file, was reinstalled, replaces another
    machine, or was reported by another service. Refuses one of another host that is up. Writes
    the file compute_id; restart compute-agent afterwards.

    Adopt a provider below this host's root if another service created it: drivers may then
    change it, and it is removed when no driver reports it. Stop compute-agent first, and
    start it afterwards. Placement is only read.
    """

    wraps = True
    examples = """\
  computectl adopt host1                                   by name
  computectl adopt 6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca    by UUID
"""
    arguments = (argument("provider", metavar="NAME_OR_UUID", help="the provider to take over"),)

    def execute(self, options: argparse.Namespace) -> Adopted:
        """Check that the provider can be adopted, and write ``compute_id`` or the ledger."""
        session = self.session()
        api = session.placement()
        listed = find_provider(options.provider, api)
        if listed["parent_provider_uuid"] is not None:
            return _adopt_below(session, listed, api)
        try:
            before = session.compute_id()
        except IdentityError:
            before = None  # the host's files disagree about it
        other = provider_by_uuid(before, api) if before and before != listed["uuid"] else None
        if other is not None:  # it would be left behind with its guests
            raise CommandError(
                f"this host already has the root provider {other['name']} ({other['uuid']})",
                f"if that provider is not needed, delete it, then adopt {listed['name']}",
            )
        refuse_taken(session, listed["uuid"])
        copied = bool(session.copied(listed["uuid"]))
        if copied or before != listed["uuid"]:
            replace_compute_id(session.settings.state_path, listed["uuid"])
        if copied and session.settings.rules.attached:
            session.saved_root(listed["uuid"], writing=True).forget()
        return Adopted(listed["name"], listed["uuid"], before, copied=copied)

    def draw(self, answer: Adopted, screen: Screen, options: argparse.Namespace) -> Iterator[str]:
        name = screen.paint(plain(answer.name), "bold")
        if answer.below and answer.was_owned:
            yield f"{name} ({answer.uuid}) already belongs to this host; nothing was changed"
        elif answer.below:
            yield f"{name} ({answer.uuid}), below {answer.before}, now belongs to this host"
            yield (
                "start compute-agent: drivers may change it, and it is removed if no driver "
                "reports it"
            )
        elif answer.copied:
            yield f"{name} ({answer.uuid}) now belongs to this machine"
            yield "restart compute-agent to report to that provider"
        elif answer.before == answer.uuid:
            yield f"{FILE_NAME} is already {answer.uuid}; nothing was changed"
        else:
            was = f" (it was {answer.before})" if answer.before else ""
            yield f"{FILE_NAME} is now {answer.uuid}{was}, the UUID of provider {name}"
            yield "restart compute-agent to report to that provider"

    def table(self, answer: Adopted) -> Table:
        return COLUMNS, [answer]


def _adopt_below(session: Session, listed: Listed, api: API) -> Adopted:
    """Add a provider below this host's root to the ledger."""
    state_path, root = session.settings.state_path, listed["root_provider_uuid"]
    uuid, parent = listed["uuid"], listed["parent_provider_uuid"]
    if root not in session.roots():
        raise CommandError(
            f"{listed['name']} is neither a root provider nor below this host's root: "
            f"its root is {root}",
            "adopt that root if it belongs to this host, or run this command on its own host",
        )
    adopted = Adopted(listed["name"], uuid, root, below=True)
    with session.without_agent(
        "stop compute-agent, adopt the provider, then start compute-agent again"
    ):
        saved = session.saved_root(root, writing=True)
        saved.load()
        ledger = saved.ledger
        if not ledger.known:
            raise CommandError(
                f"{state_path} has no ledger of the root {root} yet",
                "run compute-agent --once first, then adopt the provider",
            )
        if ledger.owns(uuid):
            return replace(adopted, was_owned=True)
        inventory, _ = read_part(uuid, "inventories", api)
        traits, _ = read_part(uuid, "traits", api)
        claims = adopted_on(Provider(uuid, listed["name"], parent, inventory, traits))
        if not saved.save_ledger(ledger.adding(ADOPTED, uuid, claims)):
            step = "the reason is logged above; nothing was adopted"
            raise CommandError(f"{state_path} can't be written", step)
    return adopted
