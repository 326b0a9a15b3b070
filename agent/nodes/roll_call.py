"""One GET that verifies many roots: a listing of all that carry this service's mark."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from agent.nodes.departures import Departures
from agent.period.tracker import Tracker
from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.reader import Listed, providers_with

LOG = logging.getLogger(__name__)

WORTH_IT = 10
"""So many roots have to be due; fewer are asked for one by one."""


def roll_call(
    trackers: Sequence[Tracker], departures: Departures, mark: str, api: API, now: float
) -> list[Listed] | None:
    """Verify all roots that have nothing below them, if enough are due; the listing.

    ``None`` if it was not worth it, or got no answer: the roots are then verified one by
    one, as those are that have changed or have children.
    """
    alone = [one for one in trackers if one.is_alone()]
    due = sum(not one.view.certain or now >= one.root.verify_at for one in alone)
    if due < WORTH_IT and len(departures.due(now)) < WORTH_IT:
        return None
    try:
        listed = providers_with(mark, api)
    except PlacementError as err:
        LOG.debug("No roll call: %s", err)
        return None
    by_uuid = {item["uuid"]: item for item in listed}
    for tracker in alone:
        tracker.root.verified(by_uuid.get(tracker.uuid), now)
    return listed
