"""Version discovery and microversions of the compute API, 2.1 to 2.104.  Pure.

2.104 is the newest of Nova 34.  What they change of the calls that are served here: 2.11
forced_down; 2.28 cpu_info; 2.33 pages of hypervisors; 2.53 UUIDs, and one call to change a
service; 2.69 lets a list leave out what a lost cell would know (there is one database here, and
without it a 503); 2.75 and 2.102 refuse unknown query parameters; 2.88 hypervisors without
amounts.
"""

import re
from typing import Any

from agent.registry.rest.errors import Refused

Version = tuple[int, int]

OLDEST: Version = (2, 1)
NEWEST: Version = (2, 104)
HEADERS = ("OpenStack-API-Version", "X-OpenStack-Nova-API-Version")
_UPDATED = "2013-07-23T11:33:21Z"
"""When the API v2.1 was made; clients show it."""


def asked(environ: dict[str, Any]) -> Version:
    """The microversion that a request asks for; the oldest if it asks for none.

    :raises Refused: 400 for what is no version, 406 for one that is not served.
    """
    text = _compute_part(environ.get("HTTP_OPENSTACK_API_VERSION", ""))
    text = text or environ.get("HTTP_X_OPENSTACK_NOVA_API_VERSION", "").strip()
    if not text:
        return OLDEST
    if text == "latest":
        return NEWEST
    found = re.fullmatch(r"([1-9]\d*)\.([1-9]\d*|0)", text)
    if found is None:
        raise Refused(400, f"{text} is no version; versions are like {said(NEWEST)}")
    version = int(found[1]), int(found[2])
    if not OLDEST <= version <= NEWEST:
        raise Refused(406, f"version {text} is not supported; {said(OLDEST)} to {said(NEWEST)} are")
    return version


def _compute_part(header: str) -> str:
    """Of ``identity 3.7, compute 2.53``."""
    for part in header.split(","):
        service, _, version = part.strip().partition(" ")
        if service.lower() == "compute":
            return version.strip()
    return ""


def said(version: Version) -> str:
    """``2.53``."""
    return f"{version[0]}.{version[1]}"


def headers(version: Version) -> list[tuple[str, str]]:
    """Those of an answer."""
    new, old = HEADERS
    return [(new, f"compute {said(version)}"), (old, said(version)), ("Vary", ", ".join(HEADERS))]


def description(base: str) -> dict[str, Any]:
    """The API v2.1 below this URL, for clients that look what there is."""
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": said(NEWEST),
        "min_version": said(OLDEST),
        "updated": _UPDATED,
        "links": [{"rel": "self", "href": f"{base}/v2.1/"}],
    }
