"""Claims as a scheduler makes them: the first candidate that still fits, moved or released later.

python claims.py CONSUMER claim VGPU=1[,CLASS=AMOUNT...]
python claims.py CONSUMER move VGPU=1[,CLASS=AMOUNT...]
python claims.py CONSUMER release
"""

import os
import sys
from contextlib import suppress
from typing import Any
from urllib.parse import quote

from keystoneauth1 import adapter, session, token_endpoint

from reportclient import Client, errors

OWNER = {"project_id": "claims", "user_id": "claims", "consumer_type": "INSTANCE"}
TRIES = 5


def claim(client: Client, consumer: str, resources: str, generation: int | None = None) -> Any:
    """Allocate ``resources`` (``VGPU:1,…``); ``generation`` is that of a consumer that moves."""
    for _ in range(TRIES):
        query = f"/allocation_candidates?limit=100&resources={quote(resources)}"
        for candidate in client.api.request("GET", query, needs="1.38")["allocation_requests"]:
            body = {**OWNER, **candidate, "consumer_generation": generation}
            body.pop("mappings", None)
            try:
                client.api.request("PUT", f"/allocations/{consumer}", json=body, needs="1.38")
            except errors.NoCapacity:
                continue  # another consumer was faster: the next candidate
            except errors.Conflict:
                break  # something was written meanwhile: ask for candidates again
            return candidate["allocations"]
    raise LookupError(f"nothing has {resources} for consumer {consumer}")


def move(client: Client, consumer: str, resources: str) -> Any:
    """Replace what a consumer has: both are allocated and released in one call."""
    held = client.api.request("GET", f"/allocations/{consumer}", needs="1.38")
    return claim(client, consumer, resources, held.get("consumer_generation"))


def release(client: Client, consumer: str) -> None:
    """Release all that a consumer has; it may have nothing."""
    with suppress(errors.NotFound):
        client.api.request("DELETE", f"/allocations/{consumer}")


def main(client: Client, consumer: str, command: str, resources: str = "") -> str:
    """Carry out a command; return the result as a sentence."""
    if command == "release":
        release(client, consumer)
        return "released"
    wanted = resources.replace("=", ":")
    held = (move if command == "move" else claim)(client, consumer, wanted)
    return f"{resources} from {', '.join(sorted(held))}"


if __name__ == "__main__":
    auth = token_endpoint.Token(os.environ["PLACEMENT_URL"], os.environ["PLACEMENT_TOKEN"])
    placement = Client(adapter.Adapter(session.Session(auth), service_type="placement"))
    try:
        print(main(placement, *sys.argv[1:]))
    except (errors.PlacementError, LookupError) as err:
        sys.exit(str(err))
