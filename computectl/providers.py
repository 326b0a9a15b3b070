"""``computectl providers``: find providers in Placement, in any tree."""

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from agent.reporting.reports import Condition, Severity
from computectl.asking.request_options import (
    Given,
    add_group_options,
    add_selection,
    query_of,
    unknown_names_error,
    whole_form,
)
from computectl.reading.trees import name_of, names_in
from computectl.shared.commands import TEXT, Columns, DrawnOrListed, Table, argument
from computectl.shared.errors import CommandError
from computectl.shared.screen import Screen, counted
from reportclient.calls import Counting
from reportclient.candidates import ProviderQuery, read_provider_query
from reportclient.candidates.asking import ListedProviders, QueryOptions, resource_providers
from reportclient.errors import UnknownNames
from reportclient.http import API
from reportclient.model import parse_uuid
from reportclient.plain_text import plain


@dataclass(frozen=True, slots=True)
class Answered:
    """The providers found, and the names of their roots."""

    listed: ListedProviders
    names: Mapping[str, str]
    calls: int


class FindProviders(DrawnOrListed[Answered]):
    """Find resource providers by name, inventory, traits and aggregates.

    Providers of disabled hosts are counted, but not listed. Exits with 1 if none is found.
    """

    examples = """\
  computectl providers --required CUSTOM_PHYSNET_PUBLIC
  computectl providers --resources SRIOV_NET_VF=1 --in-tree host1
  computectl providers host1 --include-disabled
  computectl providers --query 'required=in:HW_CPU_X86_AVX2,HW_CPU_X86_AVX512F' -f json
"""

    arguments = (
        argument("provider", nargs="?", metavar="NAME_OR_UUID", help="name or UUID of a provider"),
    )

    def get_parser(self, prog_name: str) -> argparse.ArgumentParser:
        parser = super().get_parser(prog_name)
        add_group_options(parser)
        add_selection(parser, "query", "providers of disabled hosts")
        return parser

    def execute(self, options: argparse.Namespace) -> Answered:
        session = self.session()
        api = Counting(session.placement())
        query = _query(options, api)
        try:
            listed = resource_providers(query, api, QueryOptions(options.include_disabled))
        except UnknownNames as err:
            raise unknown_names_error(err, api) from err
        names: dict[str, str] = {}
        if options.formatter == TEXT or not options.columns or "host" in options.columns:
            names = {provider.uuid: provider.name for provider in listed.providers}
            roots = {provider.root_uuid for provider in listed.providers}
            names |= names_in(sorted(roots - names.keys()), api)
        return Answered(listed, names, api.calls)

    def draw(self, answer: Answered, screen: Screen, options: argparse.Namespace) -> Iterator[str]:  # noqa: ARG002
        providers = sorted(answer.listed.providers, key=lambda provider: provider.name)
        width = max((len(plain(provider.name)) for provider in providers), default=0)
        yield f"{counted(len(providers), 'provider')}, {counted(answer.calls, 'call')}"
        yield from [""] if providers else []
        for provider in providers:
            name = plain(provider.name)
            painted = f"{screen.paint(name, 'bold')}{' ' * (width - len(name))}"
            below = provider.uuid != provider.root_uuid
            where = f"  on {name_of(provider.root_uuid, answer.names)}" if below else ""
            yield f"{painted}  {provider.uuid}{where}"

    def table(self, answer: Answered) -> Table:
        columns: Columns = {
            "provider": lambda provider: provider.name,
            "uuid": lambda provider: provider.uuid,
            "host": lambda provider: answer.names.get(provider.root_uuid, provider.root_uuid),
            "host_uuid": lambda provider: provider.root_uuid,
            "parent_uuid": lambda provider: provider.parent_uuid,
            "generation": lambda provider: provider.generation,
        }
        return columns, sorted(answer.listed.providers, key=lambda provider: provider.name)

    def conditions(self, answer: Answered) -> Iterator[Condition]:
        """Yield a condition if providers are left out, or if there are none."""
        left_out, providers = answer.listed.left_out, answer.listed.providers
        if left_out:
            verb = "is" if left_out == 1 else "are"
            yield Condition(
                f"{counted(left_out, 'provider')} of disabled hosts {verb} left out",
                severity=Severity.WARNING if providers else Severity.ERROR,
                next_step="--include-disabled shows them",
            )
        elif not providers:
            step = "give the full name"
            yield Condition("no provider matches", next_step=step)


def _query(options: argparse.Namespace, api: API) -> ProviderQuery:
    given = list(options.given)
    if options.provider:
        parameter = "uuid" if parse_uuid(options.provider) else "name"
        given.append(Given("NAME_OR_UUID", parameter, options.provider))
    form = whole_form(given, ("query",))
    if not given:
        raise CommandError(
            "no name and no option: this would list every provider of the cloud",
            "`computectl providers --help` has examples",
        )
    return read_provider_query(form.value if form else query_of(given, api))
