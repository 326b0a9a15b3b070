"""What Nova 34 sends to Placement for the same hosts: measured formulas (docs/calls.rst).

N providers, C consumers.  A period a minute: N + C + 1 calls; each fifth of them, after 300 s,
4N + C + 3.  Nothing of it depends on whether anything has changed.
"""

from benchmarks.fleet.large_host import GUESTS as C
from benchmarks.fleet.large_host import PROVIDERS as N

PERIOD = N + C + 1
REFRESH = 4 * N + C + 3
A_SECOND = (4 * PERIOD + REFRESH) / 300
"""Calls of a host, when nothing happens."""

CALLS = {
    "a quiet hour": A_SECOND,
    "1 % of hosts change each minute": A_SECOND + 0.01 / 60,
}
"""By scenario: calls a second and host."""
CALLS_ONCE = {
    "a site boots": REFRESH,
    "a rack boots, cold": 5 * N + 2,
    "a release changes one trait on every host": REFRESH + 1,
    "all hosts are disabled": 3,
    "all hosts are enabled": 3,
}
"""By scenario: calls of a host for it, beside the above; a release is a restart there."""
