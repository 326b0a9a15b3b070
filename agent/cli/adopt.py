"""``computectl adopt``: make a provider that is in Placement already this host's root."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from agent.cli.listing import DrawnOrListed, Table
from agent.cli.look import Look
from agent.cli.session import Session
from agent.cli.trouble import Trouble
from agent.nodes.identity import FILE_NAME, IdentityError, replace_compute_id
from reportclient.http import API
from reportclient.model import canonical_uuid
from reportclient.plain_text import plain
from reportclient.reader import Listed, provider_named, provider_with


@dataclass(frozen=True, slots=True)
class Adopted:
    """The provider, and the UUID that this host had before."""

    name: str
    uuid: str
    before: str | None


class Adopt(DrawnOrListed[Adopted]):
    """Make a root provider that is in Placement already the one of this host.

    For a host that lost its compute_id file, was installed anew, or was reported by
    somebody else before. Writes the file compute_id; Placement is only read. Restart
    compute-agent afterwards.
    """

    drawn = "words"
    examples = """\
  computectl adopt host1                                   by name
  computectl adopt 6810453c-a8bc-5a3d-9e45-d3b0f9a2d7ca    by UUID
"""

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        """Which provider."""
        parser = super().get_parser(prog_name)
        parser.add_argument("provider", metavar="NAME_OR_UUID")
        return parser

    def ask(self, session: Session, options: argparse.Namespace) -> Adopted:
        """Look whether it can be ours, and write the file."""
        api = session.placement()
        found = _find(options.provider, api)
        before = _before(session)
        _refuse_two_roots(before, found, api)
        if before != found["uuid"]:
            replace_compute_id(session.settings.state_path, found["uuid"])
        return Adopted(found["name"], found["uuid"], before)

    def draw(self, answer: Adopted, look: Look, options: argparse.Namespace) -> str:  # noqa: ARG002
        """What was done and what comes next."""
        if answer.before == answer.uuid:
            return f"{FILE_NAME} is {answer.uuid} already; nothing was changed"
        was = f" (it was {answer.before})" if answer.before else ""
        name = look.paint(plain(answer.name), "bold")
        return (
            f"{FILE_NAME} is now {answer.uuid}{was}, the provider {name}"
            "\nrestart compute-agent: it reports to that provider then"
        )

    def table(self, answer: Adopted) -> Table:
        """One row."""
        return ("provider", "uuid", "before"), [(answer.name, answer.uuid, answer.before)]


def _before(session: Session) -> str | None:
    """The host's UUID; ``None`` also where its files disagree, which is why somebody adopts."""
    try:
        return session.compute_id()
    except IdentityError:
        return None


def _find(name_or_uuid: str, api: API) -> Listed:
    found = provider_named(name_or_uuid, api) or _with_uuid(name_or_uuid, api)
    if found is None:
        raise Trouble(f"Placement has no provider {name_or_uuid}", "computectl tree shows others")
    if found["parent_provider_uuid"] is not None:
        raise Trouble(
            f"{found['name']} is no root: it is below {found['parent_provider_uuid']}",
            f"the root of its tree is {found['root_provider_uuid']}",
        )
    return found


def _with_uuid(text: str, api: API) -> Listed | None:
    try:
        return provider_with(canonical_uuid(text, "provider"), api)
    except ValueError:
        return None


def _refuse_two_roots(own: str | None, found: Listed, api: API) -> None:
    """A host that is in Placement already would leave its provider behind, with its guests."""
    other = provider_with(own, api) if own and own != found["uuid"] else None
    if other is not None:
        raise Trouble(
            f"this host is in Placement already, as {other['name']} ({other['uuid']})",
            f"delete that provider first if it is not needed, then adopt {found['name']}",
        )
