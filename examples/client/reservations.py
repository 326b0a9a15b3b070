"""Reservations as Blazar has them: a provider below each host, with a class for each reservation.

    python reservations.py HOST reserve NAME UNITS
    python reservations.py HOST release NAME
    python reservations.py HOST used

Nothing of the host, and none of its other children, is read or changed.
"""

import os
import sys
from contextlib import suppress
from uuid import UUID, uuid5

from keystoneauth1 import adapter, session, token_endpoint

from reportclient import Client, OneProvider
from reportclient.errors import AlreadyThere, InUse, PlacementError

NAMESPACE = UUID("0d6f4a8e-5c1b-4c53-9f0e-2b7a4f1d9c35")


def provider_of(client: Client, host: str) -> OneProvider:
    """Return the host's provider for reservations, whether it exists or not; sends no call."""
    return client.provider(str(uuid5(NAMESPACE, host)))


def prepare(client: Client, host: str) -> None:
    """Create the host's provider for reservations.

    :raises LookupError: there is no such host.
    """
    root = client.find_provider(host)
    if root is None:
        raise LookupError(f"no host {host}")
    with suppress(AlreadyThere):
        provider_of(client, host).create(f"reservations_{host}", root)


def reserve(client: Client, host: str, name: str, units: int) -> None:
    """Make or change a reservation."""
    record = {"total": units, "max_unit": 1}
    provider_of(client, host).set_records({class_of(name): record})


def release(client: Client, host: str, name: str) -> None:
    """End a reservation, and delete its class unless another host has it.

    :raises InUse: guests use it.
    """
    provider_of(client, host).remove_records(class_of(name))
    with suppress(InUse):
        client.delete_class(class_of(name))


def class_of(name: str) -> str:
    """Return the resource class of a reservation."""
    return f"CUSTOM_RESERVATION_{name.upper().replace('-', '_')}"


def main(client: Client, host: str, command: str, *words: str) -> str:
    """Carry out a command; return the result as a sentence."""
    if provider_of(client, host).listed() is None:
        prepare(client, host)
    if command == "reserve":
        reserve(client, host, words[0], int(words[1]))
    elif command == "release":
        release(client, host, words[0])
    used = provider_of(client, host).usages()
    return ", ".join(f"{name}: {amount} used" for name, amount in sorted(used.items())) or "none"


if __name__ == "__main__":
    auth = token_endpoint.Token(os.environ["PLACEMENT_URL"], os.environ["PLACEMENT_TOKEN"])
    placement = Client(adapter.Adapter(session.Session(auth), service_type="placement"))
    try:
        print(main(placement, *sys.argv[1:]))
    except (PlacementError, LookupError) as err:
        sys.exit(str(err))
