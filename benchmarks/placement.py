"""A Placement as its package has it, with a log of its requests; the module is also its process."""

import os
import sys
from pathlib import Path

from tests.servers.placement import RealPlacement
from tests.servers.request_log import logged


class LoggedPlacement(RealPlacement):
    """A real Placement that checks its own schemas at each request, unlike that of the tests."""

    child = "benchmarks.placement"


if __name__ == "__main__":
    from placement.wsgi import init_application

    from driverkit.placement.child import serve

    directory = Path(os.environ["OS_PLACEMENT_CONFIG_DIR"])
    serve(int(sys.argv[1]), logged(init_application(), directory))
