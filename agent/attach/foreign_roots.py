"""Roots that belong to somebody else: found by UUID or by name, and waited for."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from reportclient.errors import PlacementError
from reportclient.http import API
from reportclient.reader import provider_by_name


class RootAwaited(Exception):
    """Its owner has not made the root provider yet, or has taken it away."""


@dataclass(slots=True)
class ForeignRoots:
    """UUIDs by node name; ``awaited`` says of each other node why it has none."""

    compute_id: str = ""
    """From a ``compute_id`` file that somebody put there; empty without one."""
    by_name: dict[str, str] = field(default_factory=dict)
    awaited: dict[str, Exception] = field(default_factory=dict)

    def resolve_uuids(
        self, nodes: Iterable[str], told: Mapping[str, str], api: API
    ) -> dict[str, str]:
        """For each node the UUID that its driver tells, or that of ``compute_id`` for a host
        with one node, else that of the root provider with its name; one GET for each of those
        that are not known yet.
        """
        names = list(nodes)
        self.awaited = {}
        alone = self.compute_id if len(names) == 1 else ""
        uuids = {}
        for name in names:
            uuid = told.get(name) or alone or self.by_name.get(name) or self._named(name, api)
            if uuid is not None:
                uuids[name] = uuid
        return uuids

    def forget(self, name: str) -> None:
        """Forget a root that is gone: its owner may create it again with another UUID."""
        self.by_name.pop(name, None)

    def _named(self, name: str, api: API) -> str | None:
        try:
            provider = provider_by_name(name, api)
        except PlacementError as err:
            self.awaited[name] = err
            return None
        if provider is None:
            self.awaited[name] = root_awaited(name)
        elif provider["parent_provider_uuid"] is not None:
            text = f"the provider named {name} is below another one: no root to attach to"
            self.awaited[name] = RootAwaited(text)
        else:
            self.by_name[name] = str(provider["uuid"])
        return self.by_name.get(name)


def root_awaited(name: str) -> RootAwaited:
    """For a root that is not there."""
    return RootAwaited(
        f"waiting for the root provider {name}, which its owner has to make "
        "([compute] root_provider = attach)"
    )
