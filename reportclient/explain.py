"""Add details to errors, such as the consumers that use a provider; a request for each error."""

from reportclient.apply import Outcome
from reportclient.errors import AlreadyThere, Forbidden, InUse, NameTaken, PlacementError
from reportclient.http import API
from reportclient.plan import CreateProvider, Operation, Reshape, UpdateProvider
from reportclient.reader import Listed, consumers_of, provider_by_name, provider_by_uuid

SHOWN = 5
"""Maximum number of consumers named in one error."""


def explain_errors(outcome: Outcome, root: str, api: API) -> dict[str, PlacementError]:
    """Return the errors of ``outcome.failed`` with details, by the same keys.

    ``root`` is the UUID of the caller's root provider.

    :raises reportclient.errors.PlacementError: reading the details failed.
    """
    return {
        subject: _explained(subject, err, outcome.refused.get(subject), root, api)
        for subject, err in outcome.failed.items()
    }


def _explained(
    subject: str, err: PlacementError, operation: Operation | None, root: str, api: API
) -> PlacementError:
    if isinstance(err, InUse) and isinstance(operation, Reshape):
        return InUse(
            f"{err.args[0]}; neither inventory nor allocations were moved",
            request_id=err.request_id,
        )
    if isinstance(err, InUse) and operation is not None:
        return in_use_error(err, consumers_of(subject, api))
    if isinstance(err, Forbidden) and isinstance(operation, Reshape):
        return Forbidden(
            f"{err.args[0]} Neither inventory nor allocations were moved.",
            request_id=err.request_id,
        )
    if isinstance(err, NameTaken) and isinstance(operation, (CreateProvider, UpdateProvider)):
        # Placement refuses an existing UUID with the same error as an existing name.
        other = provider_by_name(operation.name, api) or provider_by_uuid(operation.uuid, api)
        if other is not None and other["uuid"] == operation.uuid:
            return AlreadyThere(str(err.args[0]), request_id=err.request_id)
        return err if other is None else name_taken_error(operation, other, root)
    return err


def in_use_error(err: InUse, consumers: list[str]) -> InUse:
    """Return the error with the UUIDs of the consumers that use the provider."""
    users = list_consumers(consumers) or "consumers that are gone now"
    text = f"draining: in use by {users}; removed when its last consumer is gone"
    return InUse(text, request_id=err.request_id)


def list_consumers(consumers: list[str]) -> str:
    """Return the UUIDs of the first few consumers, and the number of the others, as text."""
    more = f" and {len(consumers) - SHOWN} more" if len(consumers) > SHOWN else ""
    return ", ".join(consumers[:SHOWN]) + more


def name_taken_error(
    operation: CreateProvider | UpdateProvider, other: Listed, root: str
) -> PlacementError:
    """Return the error for a name that ``other`` has, with both UUIDs and the next steps.

    ``root`` is the UUID of the caller's root.
    """
    name = operation.name
    if operation.uuid == root:
        ways = (
            f"If that provider is this host: computectl adopt {name}. If it is another host: "
            "rename one of the two hosts, or stop this agent. If it is a leftover: delete it in "
            "Placement."
        )
    else:
        ways = (
            "If that provider is a leftover: delete it in Placement. If it is in use: rename "
            "one of the two providers, or stop the agent that reports it."
        )
    return NameTaken(
        f"Placement already has a provider named {name} with UUID {other['uuid']} (root "
        f"{other['root_provider_uuid']}), this host reports it with UUID {operation.uuid}. {ways} "
        "Until then it is not reported, and nothing is deleted."
    )


def provider_in_other_tree(operation: CreateProvider) -> PlacementError:
    """Return the error if the provider to be created exists in another tree."""
    uuid = operation.uuid
    return NameTaken(
        f"Placement already has provider {operation.name} ({uuid}), in another tree. "
        "If it is a leftover: delete it in Placement. If it is in use: give one of the two "
        "providers another name, or stop the agent that reports it."
    )
