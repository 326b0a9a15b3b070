"""Nova's own client side of set_host_enabled, run with its interpreter.

Reads a call a line, ``NUMBER HOST ENABLED [TIMESTAMP]``, makes each in a thread with Nova's
defaults, and writes ``NUMBER ANSWER``.
"""

import sys
import tempfile
import threading


def main(url: str) -> None:
    """Until there are no more lines."""
    import nova.conf
    from nova import rpc
    from nova.compute.rpcapi import ComputeAPI

    rpc.set_defaults(control_exchange="nova")  # as its services do
    with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
        print(f"[DEFAULT]\ntransport_url = {url}", file=file, flush=True)
        nova.conf.CONF([], project="nova", default_config_files=[file.name])
    rpc.init(nova.conf.CONF)
    for line in sys.stdin:
        threading.Thread(target=call, args=[ComputeAPI(), *line.split()], daemon=True).start()


def call(api, number: str, host: str, enabled: str, timestamp: str | None = None) -> None:
    from nova import context

    caller = context.RequestContext("admin", "admin", is_admin=True, timestamp=timestamp)
    try:
        answer = api.set_host_enabled(caller, host, enabled == "True")
    except Exception as err:
        answer = f"{type(err).__name__}: {err}".partition("\n")[0]
    print(number, answer, flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
