"""Roots of other services (attach mode): looked up by UUID or name, or waited for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.reader import provider_by_name


class RootAwaited(Exception):
    """Another service has not created the root provider yet, or has deleted it."""


@dataclass(slots=True)
class ForeignRoots:
    """UUIDs of roots by node name; ``awaited`` has the reason for each node without one."""

    by_name: dict[str, str] = field(default_factory=dict)
    awaited: dict[str, Exception] = field(default_factory=dict)

    def resolve_uuids(
        self, nodes: Iterable[str], reported: Mapping[str, str], compute_id: str, api: API
    ) -> dict[str, str]:
        """Return the root's UUID of each node that has one.

        It is the one that the driver reports (``reported``, by node), else that of the file
        ``compute_id`` (empty without the file) on a host with one node, else that of the root
        provider with the node's name.  Each name that is not known yet is one GET.
        """
        names = list(nodes)
        self.awaited = {}
        alone = compute_id if len(names) == 1 else ""
        uuids = {}
        for name in names:
            uuid = (
                reported.get(name)
                or alone
                or self.by_name.get(name)
                or self._root_by_name(name, api)
            )
            if uuid is not None:
                uuids[name] = uuid
        return uuids

    def forget(self, name: str) -> None:
        """Forget a deleted root: its owner may create it again with another UUID."""
        self.by_name.pop(name, None)

    def _root_by_name(self, name: str, api: API) -> str | None:
        try:
            provider = provider_by_name(name, api)
        except PlacementError as err:
            self.awaited[name] = err
            return None
        if provider is None:
            self.awaited[name] = root_awaited(name)
        elif provider["parent_provider_uuid"] is not None:
            text = f"provider {name} has a parent: an agent can attach to a root provider only"
            self.awaited[name] = RootAwaited(text)
        else:
            self.by_name[name] = str(provider["uuid"])
        return self.by_name.get(name)


def root_awaited(name: str) -> RootAwaited:
    """Return the error for a root that does not exist."""
    return RootAwaited(
        f"waiting for the root provider {name}: another service has to create it "
        "([compute] root_provider = attach)"
    )
