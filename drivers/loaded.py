"""A loaded driver: calls its methods with a deadline, and checks their results.

For an unusable result a DriverError is raised that names the method.  The driver's code runs in
``calls`` only, also that of its results: they are read there, to plain values.
"""

import copy
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from math import isfinite
from reprlib import repr as shortened
from typing import Any, Concatenate, ParamSpec, TypeVar

from drivers.abilities import ABILITY_OF, OPTIONAL, Degradable, Hosting, Identified, Timed
from drivers.api import ComputeDriver
from drivers.deadline import WITHIN, Calls, result_of
from drivers.errors import DriverError
from drivers.legacy import older_methods, update_by_older_methods
from reportclient.model import Allocations, canonical_uuid, provider_name
from reportclient.plain_text import error_text
from reportclient.provider_tree import ProviderTree

LOG = logging.getLogger("compute_agent.drivers")

Arguments = ParamSpec("Arguments")
T = TypeVar("T")


@dataclass(slots=True)
class Opening:
    """The result of the driver's ``init_host``."""

    failed: DriverError | None = None
    """The error; ``None`` if it succeeded."""
    then: Callable[[], None] | None = None
    """Called after a later attempt has succeeded."""


@dataclass(frozen=True, slots=True)
class LoadedDriver:
    """A driver, with the ``OPTIONAL`` abilities that it has."""

    name: str
    driver: ComputeDriver
    abilities: frozenset[type] = frozenset()
    opening: Opening = field(default_factory=Opening, repr=False, compare=False)
    last_capabilities: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    """The last valid ones; :meth:`update_provider_tree` reads them."""
    calls: Calls = field(default_factory=Calls, repr=False, compare=False)

    @classmethod
    def from_driver(
        cls, name: str, driver: ComputeDriver, within: float = WITHIN
    ) -> "LoadedDriver":
        """Return the LoadedDriver of ``driver``; its calls have to return ``within`` seconds."""
        abilities = frozenset(ability for ability in OPTIONAL if isinstance(driver, ability))
        return cls(name, driver, abilities, calls=Calls(within, thread_safe=driver.thread_safe))

    def can(self, ability: type) -> bool:
        """Return whether the driver has the methods of this protocol."""
        return ability in self.abilities

    def call(
        self,
        method: Callable[Concatenate[Any, Arguments], T],
        *arguments: Arguments.args,
        **named: Arguments.kwargs,
    ) -> T | None:
        """Call an optional method; return ``None`` if the driver does not have it.

        ``method`` is that of the protocol: ``loaded.call(Switched.set_host_enabled, True)``.

        :raises BaseException: the driver's exception.
        """
        name = method.__name__
        if not self.can(ABILITY_OF[name]):
            return None
        answer: T = self.calls(name, lambda: getattr(self.driver, name)(*arguments, **named))
        return answer

    def update_provider_tree(
        self, tree: ProviderTree, node: str, allocations: Allocations | None
    ) -> None:
        """Let the driver edit ``tree``; one node at a time unless it is ``thread_safe``.

        :raises DriverError: ``init_host`` failed, or the driver's capabilities are invalid.
        :raises BaseException: the driver's exception.
        """
        if self.opening.failed is not None:
            raise self.opening.failed

        def update() -> object:
            self._note_capabilities()
            method: Callable[..., Any] = self.driver.update_provider_tree
            if not older_methods(self.driver):
                return method(tree, node, allocations)
            before, moved_before = copy.deepcopy((tree, allocations))
            try:
                return method(tree, node, allocations)
            except NotImplementedError:  # as in Nova, this means that the method is missing
                tree.restore(before)
                if allocations is not None and moved_before is not None:
                    allocations.clear()
                    allocations.update(moved_before)
                update_by_older_methods(self.driver, tree, node)
                return None

        try:
            self.calls("update_provider_tree", update, node=node)
        finally:
            tree.close()  # a thread of the driver may go on editing it

    def _note_capabilities(self) -> None:
        capabilities = self.driver.capabilities
        problem = capabilities_problem(capabilities)
        if problem:
            raise DriverError(problem)
        if capabilities != self.last_capabilities:
            self.last_capabilities.clear()
            self.last_capabilities.update(capabilities)

    def nodes(self) -> list[str]:
        """Return the names of the driver's nodes; may be empty.

        :raises DriverError: the driver's result is not a list of distinct names.
        """
        return self._read(ComputeDriver.get_available_nodes, _node_names)

    def node_uuids(self) -> dict[str, str]:
        """Return UUIDs by node name, for nodes whose UUID comes from the driver.

        :raises DriverError: the driver's result is not a mapping of UUIDs to names.
        """
        if not self.can(Identified):
            return {}
        return self._read(Identified.get_nodenames_by_uuid, _node_uuids)

    def degraded(self, node: str) -> dict[str, str]:
        """Return the driver's problems with a node by part, ``{part: reason}``.

        Raises nothing: a failure of ``degraded()`` is a problem itself.
        """
        if not self.can(Degradable) or self.opening.failed is not None:
            return {}
        try:
            return self._read(Degradable.degraded, _reasons, node)
        except DriverError as err:
            return {f"driver {self.name}": f"degraded() failed: {error_text(err)}"}

    def guests(self, node: str) -> frozenset[str]:
        """Return the UUIDs of a node's guests.

        :raises DriverError: they are unknown now.
        """
        return self._read(Hosting.guests, _guests, node) if self.can(Hosting) else frozenset()

    def took(self) -> dict[str, float]:
        """Return the seconds that each source took; empty if unknown.  Raises nothing."""
        try:
            return self._read(Timed.took, _seconds) if self.can(Timed) else {}
        except DriverError:
            LOG.debug("Driver %s: took() failed", self.name, exc_info=True)
            return {}

    def _read(self, method: Callable[..., Any], read: Callable[[Any], T], *arguments: str) -> T:
        """Return what ``read`` makes of a method's result; it runs in the driver's thread, too."""
        name = method.__name__

        def answer() -> object:
            return getattr(self.driver, name)(*arguments)

        return self.calls(name, lambda: read(result_of(name, answer)))


def _node_names(answer: object) -> list[str]:
    call = "get_available_nodes() has to return a list of names"
    if isinstance(answer, str) or not isinstance(answer, Iterable):
        raise DriverError(f"{call}, not {shortened(answer)}")
    names: dict[str, None] = {}
    for name in answer:
        if not isinstance(name, str) or not name:
            raise DriverError(f"{call}: {shortened(name)} is none")
        try:
            node = provider_name(name)
        except ValueError as err:
            raise DriverError(f"{call}: {err}") from None
        if node in names:
            raise DriverError(f"{call}: {node!r} is named twice")
        names[node] = None
    return list(names)


def _node_uuids(answer: object) -> dict[str, str]:
    call = "get_nodenames_by_uuid() has to return {uuid: nodename}"
    if not isinstance(answer, Mapping):
        raise DriverError(f"{call}, not {shortened(answer)}")
    uuids: dict[str, str] = {}
    names: dict[str, str] = {}
    for key, name in answer.items():
        try:
            uuid, node = canonical_uuid(key, "node"), provider_name(name)
        except ValueError as err:
            raise DriverError(f"{call}: {err}") from None
        if uuids.setdefault(node, uuid) != uuid:
            raise DriverError(f"{call}: {node!r} has two UUIDs")
        if names.setdefault(uuid, node) != node:
            raise DriverError(f"{call}: {names[uuid]!r} and {node!r} have one UUID, {uuid}")
    return uuids


def _reasons(answer: object) -> dict[str, str]:
    if not isinstance(answer, Mapping):
        raise DriverError(f"it has to return {{part: reason}}, not {shortened(answer)}")
    return {str(part): str(reason) for part, reason in answer.items()}


def _guests(answer: Iterable[str] | None) -> frozenset[str]:
    return frozenset(canonical_uuid(uuid, "guest") for uuid in answer or ())


def _seconds(answer: object) -> dict[str, float]:
    pairs = answer.items() if isinstance(answer, Mapping) else ()
    seconds = {str(name): float(value) for name, value in pairs}
    return {name: value for name, value in seconds.items() if isfinite(value)}


def capabilities_problem(capabilities: object) -> str | None:
    """Return why these capabilities can't be mapped to traits, or ``None``."""
    if not isinstance(capabilities, Mapping):
        return f"capabilities is {capabilities!r}, not a mapping of names to True or False"
    for name, able in capabilities.items():
        if not isinstance(name, str) or not isinstance(able, bool):
            return f"capabilities has {name!r}: {able!r}: a name, and True or False, are needed"
    return None
