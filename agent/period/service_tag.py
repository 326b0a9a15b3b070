"""The service tag: a trait on each root of a service that has many.  Pure.

Nodes move between services (Ironic's hash ring, a conductor group).  Both services report the
same provider then, so an owner trait that all agents share can't tell which of them owns it.
A service that begins to report a node replaces the other's tag by its own.  A service that stops
may remove the node's providers only while the root has its own tag.
"""

import re
from collections.abc import Iterable

_PREFIX = "CUSTOM_COMPUTE_AGENT_"
_TAG = re.compile(_PREFIX + r"[0-9A-F]{8}(_[0-9A-F]{4}){3}_[0-9A-F]{12}")


def tag_of(service: str) -> str:
    """Return the service tag for the UUID in a service's ``compute_id``.

    >>> tag_of("c0ffee00-0000-4000-8000-000000000001")
    'CUSTOM_COMPUTE_AGENT_C0FFEE00_0000_4000_8000_000000000001'
    """
    return _PREFIX + service.upper().replace("-", "_")


def service_of(tag: str) -> str:
    """Return the UUID of the service with this tag."""
    return tag.removeprefix(_PREFIX).lower().replace("_", "-")


def is_service_tag(trait: str) -> bool:
    """Return whether a trait is a service tag."""
    return _TAG.fullmatch(trait) is not None


def tags_of_others(traits: Iterable[str], own: str) -> frozenset[str]:
    """Return the service tags among these traits that are not ``own``."""
    return frozenset(trait for trait in traits if trait != own and is_service_tag(trait))
