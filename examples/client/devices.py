"""Hangs this host's devices beneath the root that nova-compute has made: a stranger's service.

    python devices.py COMPUTE_NODE DEVICE...

It knows nothing of compute-agent: keystoneauth's adapter and ``reportclient`` are all.
"""

import os
import sys
import time

from keystoneauth1 import adapter, session, token_endpoint

from reportclient.client import Client

MINE = "CUSTOM_EXAMPLE_ACCELERATOR"


def report(client: Client, node: str, devices: list[str]) -> str:
    """Make the devices below the root of ``node`` those; a sentence on what came of it."""
    root = client.find_provider(node)
    if root is None:
        return f"nova-compute has not made {node} yet"
    tree = client.tree(root)
    wanted = {f"{node}_accel_{device}" for device in devices}
    mine = [one for one in map(tree.data, tree.get_provider_uuids()) if MINE in one.inventory]
    for gone in (one for one in mine if one.name not in wanted):
        tree.remove(gone.uuid)
    for name in sorted(wanted):
        if not tree.exists(name):
            tree.new_child(name, root)
        tree.update_inventory(name, {MINE: {"total": 1, "max_unit": 1}})
    result = client.update(tree)
    refused = "; ".join(str(err) for err in result.failed.values())
    return f"{len(result.done)} changes, {result.calls} calls{refused and '; refused: '}{refused}"


if __name__ == "__main__":
    auth = token_endpoint.Token(os.environ["PLACEMENT_URL"], os.environ["PLACEMENT_TOKEN"])
    placement = Client(adapter.Adapter(session.Session(auth), service_type="placement"))
    for _ in range(int(os.environ.get("PERIODS", "1000000000"))):
        print(report(placement, sys.argv[1], sys.argv[2:]), flush=True)
        time.sleep(float(os.environ.get("EVERY", "60")))
