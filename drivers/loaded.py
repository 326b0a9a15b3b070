"""A loaded driver: calls its methods with a deadline, and checks their results.

For an unusable result a DriverError is raised that names the method.
"""

import copy
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import Any, Concatenate, ParamSpec, TypeVar

from drivers.abilities import ABILITY_OF, OPTIONAL, Degradable, Hosting, Identified, Timed
from drivers.api import ComputeDriver
from drivers.deadline import WITHIN, Calls
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

        self._read_capabilities()
        method: Callable[..., Any] = self.driver.update_provider_tree

        def update() -> object:
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

    def capabilities(self) -> dict[str, bool]:
        """Return the driver's capabilities; the last valid ones if they are invalid now.

        Raises nothing: :meth:`update_provider_tree` raises the error.
        """
        with suppress(Exception, SystemExit):
            self._read_capabilities()
        return dict(self.last_capabilities)

    def _read_capabilities(self) -> None:
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
        :raises BaseException: the driver's exception.
        """
        answer: object = self.calls("get_available_nodes", lambda: _node_names(self.driver))
        call = f"get_available_nodes() returned {answer!r}"
        if isinstance(answer, str):
            raise DriverError(f"{call}: a list of names is needed, [{answer!r}]")
        if not isinstance(answer, Iterable):
            raise DriverError(f"{call}: a list of names is needed")
        names: dict[str, None] = {}
        for name in answer:
            if not isinstance(name, str) or not name:
                raise DriverError(f"{call}: {name!r} is not the name of a node")
            try:
                node = provider_name(name)
            except ValueError as err:
                raise DriverError(f"{call}: {err}") from None
            if node in names:
                raise DriverError(f"{call}: {node!r} is named twice")
            names[node] = None
        return list(names)

    def node_uuids(self) -> dict[str, str]:
        """Return UUIDs by node name, for nodes whose UUID comes from the driver.

        :raises DriverError: the driver's result is not a mapping of UUIDs to names.
        :raises BaseException: the driver's exception.
        """
        if not self.can(Identified):
            return {}
        answer: object = self.call(Identified.get_nodenames_by_uuid)
        if not isinstance(answer, Mapping):
            raise DriverError(
                f"get_nodenames_by_uuid() returned {answer!r}, not {{uuid: nodename}}"
            )
        call = f"get_nodenames_by_uuid() returned {answer!r}"
        try:
            pairs = [(name, canonical_uuid(uuid, "node")) for uuid, name in answer.items()]
        except ValueError as err:
            raise DriverError(f"{call}: {err}") from None
        uuids: dict[str, str] = {}
        for name, uuid in pairs:
            if uuids.setdefault(name, uuid) != uuid:
                raise DriverError(f"{call}: {name!r} has two UUIDs")
        return uuids

    def degraded(self, node: str) -> dict[str, str]:
        """Return the driver's problems with a node by part, ``{part: reason}``.

        Raises nothing: a failure of ``degraded()`` is a problem itself.
        """
        part = f"driver {self.name}"
        if not self.can(Degradable) or self.opening.failed is not None:
            return {}
        try:
            answer: object = self.call(Degradable.degraded, node)
        except (Exception, SystemExit) as err:  # noqa: BLE001  a driver must not end the agent
            return {part: f"degraded() failed: {error_text(err)}"}
        if not isinstance(answer, Mapping):
            return {part: f"degraded() returned {answer!r}, not {{part: reason}}"}
        return {str(key): str(reason) for key, reason in answer.items()}

    def guests(self, node: str) -> frozenset[str] | None:
        """Return the UUIDs of a node's guests; ``None`` if unknown now.  Raises nothing."""
        try:
            answer = self.call(Hosting.guests, node) or ()
            return frozenset(canonical_uuid(uuid, "guest") for uuid in answer)
        except (Exception, SystemExit):
            LOG.debug("Driver %s: guests() failed", self.name, exc_info=True)
            return None

    def took(self) -> dict[str, float]:
        """Return the seconds that each source took; empty if unknown.  Raises nothing."""
        try:
            answer: object = self.call(Timed.took)
            if isinstance(answer, Mapping):
                seconds = {str(name): float(value) for name, value in answer.items()}
                return {name: value for name, value in seconds.items() if isfinite(value)}
        except (Exception, SystemExit):
            LOG.debug("Driver %s: took() failed", self.name, exc_info=True)
        return {}


def _node_names(driver: ComputeDriver) -> object:
    """Call ``get_available_nodes``; read an iterator to its end, since only here is a deadline."""
    answer: object = driver.get_available_nodes()
    return list(answer) if isinstance(answer, Iterator) else answer


def capabilities_problem(capabilities: object) -> str | None:
    """Return why these capabilities can't be mapped to traits, or ``None``."""
    if not isinstance(capabilities, Mapping):
        return f"capabilities is {capabilities!r}, not a mapping of names to True or False"
    for name, able in capabilities.items():
        if not isinstance(name, str) or not isinstance(able, bool):
            return f"capabilities has {name!r}: {able!r}: a name, and True or False, are needed"
    return None
