"""LiveProvider: a provider of a tree as the tree has it now, as in the ``roots`` of Nova's tree.

It stores nothing, so edits of the tree show at once.  What it returns is read-only; its methods
that edit are the tree's, and so obey the tree's rules.  Pure.
"""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn

from reportclient.model import Provider

if TYPE_CHECKING:
    from reportclient.provider_tree import ProviderTree

OF_THE_TREE = frozenset(
    {
        *("data", "get_provider_uuids", "has_inventory", "has_inventory_changed"),
        *("has_traits", "have_traits_changed", "in_aggregates", "have_aggregates_changed"),
        *("update_inventory", "update_traits", "update_aggregates", "update_resources"),
    }
)
"""Methods that are the tree's, without the argument for the provider."""


class ReadOnly(dict[str, Any]):
    """A dict that refuses changes, since they would not change the tree; copies can be changed."""

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        raise TypeError("this dict is read-only: change the tree with its methods")

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        return copy.deepcopy(dict(self), memo)


@dataclass(frozen=True)
class LiveProvider:
    """A provider of a tree; its methods are the tree's, without the argument for the provider.

    After its removal the attributes are those that it had.
    """

    _tree: "ProviderTree"
    uuid: str

    def __getattr__(self, name: str) -> Any:
        if name not in OF_THE_TREE:
            raise AttributeError(f"a provider of the tree has no {name!r}", name=name, obj=self)
        return partial(getattr(self._tree, name), self.uuid)

    @property
    def _now(self) -> Provider:
        return self._tree.provider(self.uuid) or self._tree._removed[self.uuid]

    @property
    def name(self) -> str:
        """The provider's name."""
        return self._now.name

    @property
    def parent_uuid(self) -> str | None:
        """The parent's UUID; ``None`` for a root."""
        return self._now.parent_uuid

    @property
    def generation(self) -> int | None:
        """The provider's generation, if known."""
        return self._tree.data(self.uuid).generation if self._tree.exists(self.uuid) else None

    @property
    def inventory(self) -> dict[str, dict[str, Any]]:
        """Inventory records by resource class; read-only."""
        records = self._now.inventory.items()
        return ReadOnly({name: ReadOnly(record.as_dict()) for name, record in records})

    @property
    def traits(self) -> frozenset[str]:
        """The provider's traits."""
        return self._now.traits

    @property
    def aggregates(self) -> frozenset[str]:
        """The UUIDs of the provider's aggregates."""
        return self._now.aggregates

    @property
    def resources(self) -> dict[str, Any]:
        """Nova's Resource objects by resource class; read-only."""
        there = self._tree.exists(self.uuid)
        return ReadOnly(self._tree.data(self.uuid).resources if there else {})

    @property
    def children(self) -> "dict[str, LiveProvider]":
        """The providers directly below by UUID; read-only."""
        return live_below(self._tree, self.uuid)

    def find(self, name_or_uuid: str) -> "LiveProvider | None":
        """Return this provider, or one below it; ``None`` if there is no such provider."""
        found = above = self._tree._search(name_or_uuid)
        while above is not None and above.uuid != self.uuid:
            above = self._tree.provider(above.parent_uuid) if above.parent_uuid else None
        return LiveProvider(self._tree, found.uuid) if found and above else None

    def have_resources_changed(self, resources: Mapping[str, Any]) -> bool:
        """Return whether ``resources`` differs from the provider's resources."""
        return self.resources != resources


def live_below(tree: "ProviderTree", uuid: str | None) -> dict[str, LiveProvider]:
    """Return the providers below one, or the roots for ``None``, by UUID; read-only."""
    return ReadOnly({each: LiveProvider(tree, each) for each in tree._children_of(uuid)})
