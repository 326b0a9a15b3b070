"""A service of its own that reports devices below the root that nova-compute has created.

    python devices.py COMPUTE_NODE DEVICE...

It uses only ``reportclient`` and keystoneauth, and needs no agent.
"""

import os
import sys
import time

from keystoneauth1 import adapter, session, token_endpoint

from reportclient.client import Client

RESOURCE_CLASS = "CUSTOM_EXAMPLE_ACCELERATOR"


def report(client: Client, node: str, devices: list[str]) -> str:
    """Report these devices below the root of ``node``; return the result as a sentence."""
    root = client.find_provider(node)
    if root is None:
        return f"nova-compute has not created {node} yet"
    tree = client.tree(root)
    wanted = {f"{node}_accel_{device}" for device in devices}
    for provider in [tree.data(uuid) for uuid in tree.get_provider_uuids()]:
        if RESOURCE_CLASS in provider.inventory and provider.name not in wanted:
            tree.remove(provider.uuid)
    for name in sorted(wanted):
        if not tree.exists(name):
            tree.new_child(name, root)
        tree.update_inventory(name, {RESOURCE_CLASS: {"total": 1, "max_unit": 1}})
    result = client.update(tree)
    refused = "; ".join(str(err) for err in result.failed.values())
    return f"{len(result.done)} changes, {result.calls} calls{refused and '; refused: '}{refused}"


if __name__ == "__main__":
    auth = token_endpoint.Token(os.environ["PLACEMENT_URL"], os.environ["PLACEMENT_TOKEN"])
    placement = Client(adapter.Adapter(session.Session(auth), service_type="placement"))
    for _ in range(int(os.environ.get("PERIODS", "1000000000"))):
        print(report(placement, sys.argv[1], sys.argv[2:]), flush=True)
        time.sleep(float(os.environ.get("EVERY", "60")))
