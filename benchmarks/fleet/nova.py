"""Calls of Nova 34 to Placement for the same hosts, by measured formulas (docs/calls.rst).

N providers, C consumers.  A period each minute sends N + C + 1 calls; every fifth one, after 300 s,
4N + C + 3, whether or not anything has changed.
"""

from benchmarks.fleet.large_host import GUESTS as C
from benchmarks.fleet.large_host import PROVIDERS as N

PERIOD = N + C + 1
REFRESH = 4 * N + C + 3
A_SECOND = (4 * PERIOD + REFRESH) / 300
"""Calls a second of a host if nothing changes."""

CALLS = {
    "a quiet hour": A_SECOND,
    "1 % of hosts change each minute": A_SECOND + 0.01 / 60,
}
"""Calls a second of a host, by scenario."""
CALLS_ONCE = {
    "a site boots": REFRESH,
    "a rack boots, cold": 5 * N + 2,
    "a release changes one trait on every host": REFRESH + 1,
    "all hosts are disabled": 3,
    "all hosts are enabled": 3,
}
"""Additional calls of a host for a scenario; with Nova a release is a restart."""
