"""The service tag: a trait on each root of a service that has many.  Pure.

Nodes move between services (Ironic's hash ring, a conductor group).  Both report the
same provider then, so that an owner trait which all agents share can't say whose it is.
Who begins to report a node puts its own tag in place of the other's; who stops may
remove the node's provider only while it carries his.
"""

import re
from collections.abc import Iterable

_PREFIX = "CUSTOM_COMPUTE_AGENT_"
_TAG = re.compile(_PREFIX + r"[0-9A-F]{8}(_[0-9A-F]{4}){3}_[0-9A-F]{12}")


def tag_of(service: str) -> str:
    """The trait of the service with this UUID, that of its ``compute_id``.

    >>> tag_of("c0ffee00-0000-4000-8000-000000000001")
    'CUSTOM_COMPUTE_AGENT_C0FFEE00_0000_4000_8000_000000000001'
    """
    return _PREFIX + service.upper().replace("-", "_")


def service_of(tag: str) -> str:
    """The UUID of the service."""
    return tag.removeprefix(_PREFIX).lower().replace("_", "-")


def is_service_tag(trait: str) -> bool:
    """Whether some service's tag is this trait."""
    return _TAG.fullmatch(trait) is not None


def tags_of_others(traits: Iterable[str], own: str) -> frozenset[str]:
    """Tags among these traits that are not ``own``."""
    return frozenset(each for each in traits if each != own and is_service_tag(each))
