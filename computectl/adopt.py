"""``computectl adopt``: make a provider that is in Placement already this host's.

A root becomes the host's root; one below the host's root stands in the ledger from then on.
"""

import argparse
from dataclasses import dataclass

from agent.nodes.identity import FILE_NAME, IdentityError, replace_compute_id
from agent.ownership.ledger import ADOPTED, everything_on
from computectl.reading.trees import find_provider, inventory_of
from computectl.shared.command_session import Session
from computectl.shared.commands import DrawnOrListed, Table, argument
from computectl.shared.errors import CommandError
from computectl.shared.screen import Screen
from reportclient.http import API
from reportclient.model import Provider
from reportclient.plain_text import plain
from reportclient.reader import Listed, provider_by_uuid, traits_of


@dataclass(frozen=True, slots=True)
class Adopted:
    """The provider, and the UUID that this host, or the provider's root, had before."""

    name: str
    uuid: str
    before: str | None
    below: bool = False
    """Whether it is no root, but below this host's."""
    was_ours: bool = False


class Adopt(DrawnOrListed[Adopted]):
    """Take over an existing provider in Placement for this host.

    A root provider: for a host that lost its compute_id file, was reinstalled, or was
    reported by another service. Writes the file compute_id; restart compute-agent afterwards.

    A provider below this host's root that another service made: from then on a driver may
    change it, and it is removed when no driver reports it. Stop compute-agent first, and
    start it afterwards. Placement is only read.
    """

    drawn = "words"
    examples = """\
  computectl adopt host1                                   by name
  computectl adopt 6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca    by UUID
"""
    arguments = (argument("provider", metavar="NAME_OR_UUID", help="the provider to take over"),)

    def execute(self, session: Session, options: argparse.Namespace) -> Adopted:
        """Look whether it can be ours, and write the file."""
        api = session.placement()
        listed = find_provider(options.provider, api)
        if listed["parent_provider_uuid"] is not None:
            return _adopt_below(session, listed, api)
        before = _before(session)
        _refuse_two_roots(before, listed, api)
        if before != listed["uuid"]:
            replace_compute_id(session.settings.state_path, listed["uuid"])
        return Adopted(listed["name"], listed["uuid"], before)

    def draw(self, answer: Adopted, screen: Screen, options: argparse.Namespace) -> str:  # noqa: ARG002
        if answer.below:
            return _text_below(answer, screen)
        if answer.before == answer.uuid:
            return f"{FILE_NAME} is {answer.uuid} already; nothing was changed"
        was = f" (it was {answer.before})" if answer.before else ""
        name = screen.paint(plain(answer.name), "bold")
        return (
            f"{FILE_NAME} is now {answer.uuid}{was}, the provider {name}"
            "\nrestart compute-agent: it reports to that provider then"
        )

    def table(self, answer: Adopted) -> Table:
        return ("provider", "uuid", "before"), [(answer.name, answer.uuid, answer.before)]


def _before(session: Session) -> str | None:
    """The host's UUID; ``None`` also where its files disagree, which is why somebody adopts."""
    try:
        return session.compute_id()
    except IdentityError:
        return None


def _refuse_two_roots(own: str | None, listed: Listed, api: API) -> None:
    """A host that is in Placement already would leave its provider behind, with its guests."""
    other = provider_by_uuid(own, api) if own and own != listed["uuid"] else None
    if other is not None:
        raise CommandError(
            f"this host is in Placement already, as {other['name']} ({other['uuid']})",
            f"delete that provider first if it is not needed, then adopt {listed['name']}",
        )


# -- below the root


def _adopt_below(session: Session, listed: Listed, api: API) -> Adopted:
    root = listed["root_provider_uuid"]
    if root not in session.roots():
        raise CommandError(
            f"{listed['name']} is no root, and not below this host's either: it is below {root}",
            "adopt its root if that is this host's, or run this on the host that it belongs to",
        )
    with session.without_agent(
        "stop compute-agent, adopt the provider, then start compute-agent again"
    ):
        return Adopted(
            listed["name"], listed["uuid"], root, below=True, was_ours=_claim(session, listed, api)
        )


def _claim(session: Session, listed: Listed, api: API) -> bool:
    """Note it in the ledger; whether it was there already."""
    state_path, root = session.settings.state_path, listed["root_provider_uuid"]
    kept = session.saved_root(root, writing=True)
    kept.load()
    ledger = kept.ledger
    if not ledger.begun:
        raise CommandError(
            f"compute-agent has kept nothing of the root {root} in {state_path} yet",
            "run compute-agent --once first, then adopt the provider",
        )
    if ledger.is_ours(listed["uuid"]):
        return True
    if not kept.save_ledger(
        ledger.adding(ADOPTED, listed["uuid"], everything_on(_read(listed, api)))
    ):
        raise CommandError(f"{state_path} can't be written", "see above why; nothing was adopted")
    return False


def _read(listed: Listed, api: API) -> Provider:
    uuid, parent = listed["uuid"], listed["parent_provider_uuid"]
    inventory, traits = inventory_of(uuid, api), traits_of(uuid, api)
    return Provider(uuid, listed["name"], parent, inventory, traits)


def _text_below(answer: Adopted, screen: Screen) -> str:
    name = screen.paint(plain(answer.name), "bold")
    if answer.was_ours:
        return f"{name} ({answer.uuid}) is this host's already; nothing was changed"
    return (
        f"{name} ({answer.uuid}), below {answer.before}, is this host's now"
        "\nstart compute-agent: a driver may change it then, and it is removed if none reports it"
    )
