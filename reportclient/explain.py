"""Errors with what it takes to understand them, asked of Placement once per error."""

from reportclient.apply import Outcome
from reportclient.errors import AlreadyThere, Forbidden, InUse, NameTaken, PlacementError
from reportclient.http import API
from reportclient.plan import CreateProvider, Operation, Reshape, UpdateProvider
from reportclient.reader import Listed, consumers_of, provider_by_name, provider_by_uuid

SHOWN = 5
"""How many consumers are named in one error."""


def explain_errors(outcome: Outcome, root: str, api: API) -> dict[str, PlacementError]:
    """The errors of ``outcome.failed``, by the same keys."""
    return {
        subject: _explained(subject, err, outcome.refused.get(subject), root, api)
        for subject, err in outcome.failed.items()
    }


def _explained(
    subject: str, err: PlacementError, operation: Operation | None, root: str, api: API
) -> PlacementError:
    if isinstance(err, InUse) and isinstance(operation, Reshape):
        return InUse(f"{err.args[0]}; nothing was moved", request_id=err.request_id)
    if isinstance(err, InUse) and operation is not None:
        return in_use_error(err, consumers_of(subject, api))
    if isinstance(err, Forbidden) and isinstance(operation, Reshape):
        return Forbidden(f"{err.args[0]} Nothing was moved.", request_id=err.request_id)
    if isinstance(err, NameTaken) and isinstance(operation, (CreateProvider, UpdateProvider)):
        # The same UUID under another name is refused in the same words.
        other = provider_by_name(operation.name, api) or provider_by_uuid(operation.uuid, api)
        if other is not None and other["uuid"] == operation.uuid:
            return AlreadyThere(str(err.args[0]), request_id=err.request_id)
        return err if other is None else name_taken_error(operation, other, root)
    return err


def in_use_error(err: InUse, consumers: list[str]) -> InUse:
    """The error with the consumers that block."""
    text = (
        f"draining: in use by {list_consumers(consumers) or 'nobody any more'}; removed when its "
        "last consumer is gone"
    )
    return InUse(text, request_id=err.request_id)


def list_consumers(consumers: list[str]) -> str:
    """The first few of them, and how many more there are."""
    more = f" and {len(consumers) - SHOWN} more" if len(consumers) > SHOWN else ""
    return ", ".join(consumers[:SHOWN]) + more


def name_taken_error(
    operation: CreateProvider | UpdateProvider, other: Listed, root: str
) -> PlacementError:
    """The error with both UUIDs and the ways out."""
    name = operation.name
    if operation.uuid == root:
        ways = (
            f"If that one is this host: computectl adopt {name}. If it is another host: rename "
            "one of the two, or stop this agent. If it is a leftover: delete it in Placement."
        )
    else:
        ways = (
            "If that one is a leftover: delete it in Placement. If it is in use: rename one of "
            "the two, or stop the agent that reports it."
        )
    return NameTaken(
        f"Placement has a provider named {name} with UUID {other['uuid']} already (root "
        f"{other['root_provider_uuid']}), here it has UUID {operation.uuid}. {ways} Until then "
        "it is not reported, and nothing is deleted."
    )


def provider_in_other_tree(operation: CreateProvider) -> PlacementError:
    """A provider that we would create is there already, in somebody else's tree."""
    uuid = operation.uuid
    return NameTaken(
        f"Placement has provider {operation.name} ({uuid}) already, in another tree. "
        "If it is a leftover: delete it in Placement. If it is in use: give one of the two "
        "another name, or stop the agent that reports it."
    )
