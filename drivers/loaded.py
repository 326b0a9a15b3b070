"""A driver that was loaded, and its answers: checked, one at a time, and none ends the agent.

What an author may return by mistake is found here, where the method is called, and
said with the method's name; nobody behind has to look again.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from math import isfinite
from typing import Any

from drivers.abilities import OPTIONAL
from drivers.api import ComputeDriver, Identified, Lifecycle, Switched, Timed, Unwell, Watched
from drivers.deadline import WITHIN, Calls
from drivers.errors import DriverError
from drivers.fitness import capabilities_problem
from drivers.legacy import older_methods, update_by_older_methods
from reportclient.model import Allocations, canonical_uuid, provider_name
from reportclient.plain_text import error_text
from reportclient.provider_tree import ProviderTree

LOG = logging.getLogger(__name__)


@dataclass(slots=True)
class Opening:
    """``failed`` is why the driver could not open what it needs, ``None`` if it could;
    ``then`` is called once it can.
    """

    failed: DriverError | None = None
    then: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class LoadedDriver:
    """A driver, and which of the ``OPTIONAL`` abilities it has."""

    name: str
    driver: ComputeDriver
    abilities: frozenset[type] = frozenset()
    opening: Opening = field(default_factory=Opening, repr=False, compare=False)
    able: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    """Its capabilities, as they were when they could be read last."""
    calls: Calls = field(default_factory=Calls, repr=False, compare=False)

    @classmethod
    def of(cls, name: str, driver: ComputeDriver, within: float = WITHIN) -> "LoadedDriver":
        """Each call of ``driver`` has to return ``within`` so many seconds."""
        able = frozenset(one for one in OPTIONAL if isinstance(driver, one))
        return cls(name, driver, able, calls=Calls(within, thread_safe=driver.thread_safe))

    def can(self, ability: type) -> bool:
        """Whether it has the methods of this protocol."""
        return ability in self.abilities

    def init_host(self, host: str) -> None:
        """Let it open what it needs.  :raises BaseException: whatever it raises."""
        self._tell(Lifecycle, "init_host", host)

    def cleanup_host(self, host: str) -> None:
        """Let it close what it opened.  :raises BaseException: whatever it raises."""
        self._tell(Lifecycle, "cleanup_host", host)

    def watch(self, tell: Callable[[str | None], None]) -> None:
        """Let it tell when its hypervisor is lost, and back.  :raises BaseException: as above."""
        self._tell(Watched, "watch", tell)

    def set_host_enabled(self, *, enabled: bool) -> None:
        """Tell it whether its host takes guests.  :raises BaseException: as above."""
        self._tell(Switched, "set_host_enabled", enabled)

    def _tell(self, ability: type, method: str, *arguments: object) -> Any:
        """Call an optional method; ``None`` if the driver has none."""
        if not self.can(ability):
            return None
        return self.calls(method, lambda: getattr(self.driver, method)(*arguments))

    def ask(self, tree: ProviderTree, node: str, allocations: Allocations | None) -> None:
        """Let it change ``tree``; nodes wait for each other unless it is ``thread_safe``.

        :raises DriverError: it could not open what it needs.
        :raises BaseException: whatever the driver raises.
        """
        if self.opening.failed is not None:
            raise self.opening.failed

        self._read_capabilities()
        answers: Callable[..., Any] = self.driver.update_provider_tree

        def update() -> object:
            try:
                return answers(tree, node, allocations)
            except NotImplementedError:
                # Nova's word for "I have no such method".
                if not older_methods(self.driver):
                    raise
                update_by_older_methods(self.driver, tree, node)
                return None

        self.calls("update_provider_tree", update, about=node)

    def capabilities(self) -> dict[str, bool]:
        """Return the capabilities, or the last ones.  Never raises: :meth:`ask` does."""
        with suppress(Exception, SystemExit):
            self._read_capabilities()
        return dict(self.able)

    def _read_capabilities(self) -> None:
        """They may change after it was loaded.  :raises DriverError: they can't be told."""
        said = self.driver.capabilities
        problem = capabilities_problem(said)
        if problem:
            raise DriverError(problem)
        if said != self.able:
            self.able.clear()
            self.able.update(said)

    def nodes(self) -> list[str]:
        """The names of its nodes; may be empty.

        :raises DriverError: what it returned can't be names of nodes.
        :raises BaseException: whatever the driver raises.
        """
        answer: object = self.calls("get_available_nodes", lambda: _whole(self.driver))
        said = f"get_available_nodes() returned {answer!r}"
        if isinstance(answer, str):
            raise DriverError(f"{said}: a list of names is needed, [{answer!r}]")
        if not isinstance(answer, Iterable):
            raise DriverError(f"{said}: a list of names is needed")
        names: dict[str, None] = {}
        for name in answer:
            if not isinstance(name, str) or not name:
                raise DriverError(f"{said}: {name!r} is no name of a node")
            try:
                node = provider_name(name)
            except ValueError as err:
                raise DriverError(f"{said}: {err}") from None
            if node in names:
                raise DriverError(f"{said}: {node!r} is named twice")
            names[node] = None
        return list(names)

    def uuids_told(self) -> dict[str, str]:
        """UUIDs by node name, as far as the driver knows them itself.

        :raises DriverError: what it returned can't be that.
        :raises BaseException: whatever the driver raises.
        """
        if not self.can(Identified):
            return {}
        answer: object = self._tell(Identified, "get_nodenames_by_uuid")
        if not isinstance(answer, Mapping):
            raise DriverError(f"get_nodenames_by_uuid() returned {answer!r}: no {{uuid: nodename}}")
        said = f"get_nodenames_by_uuid() returned {answer!r}"
        try:
            told = [(name, canonical_uuid(uuid, "node")) for uuid, name in answer.items()]
        except ValueError as err:
            raise DriverError(f"{said}: {err}") from None
        uuids: dict[str, str] = {}
        for name, uuid in told:
            if uuids.setdefault(name, uuid) != uuid:
                raise DriverError(f"{said}: {name!r} has two UUIDs")
        return uuids

    def degraded(self) -> dict[str, str]:
        """Return the driver's conditions by part.  Never raises: a failure is a condition."""
        if not self.can(Unwell) or self.opening.failed is not None:
            return {}
        part = f"driver {self.name}"
        try:
            answer: object = self._tell(Unwell, "degraded")
        except (Exception, SystemExit) as err:  # noqa: BLE001  the agent lives on, whatever it is
            return {part: f"degraded() failed: {error_text(err)}"}
        if not isinstance(answer, Mapping):
            return {part: f"degraded() returned {answer!r}: no {{part: reason}}"}
        return {str(key): str(reason) for key, reason in answer.items()}

    def took(self) -> dict[str, float]:
        """Seconds by source; empty where it does not say, or makes no sense.  Never raises."""
        try:
            answer: object = self._tell(Timed, "took")
            if isinstance(answer, Mapping):
                seconds = {str(name): float(one) for name, one in answer.items()}
                return {name: one for name, one in seconds.items() if isfinite(one)}
        except (Exception, SystemExit):
            LOG.debug("Driver %s: took() failed", self.name, exc_info=True)
        return {}


def _whole(driver: ComputeDriver) -> object:
    """Its answer; what comes one by one is read here, where there is a deadline."""
    answer: object = driver.get_available_nodes()
    return list(answer) if isinstance(answer, Iterator) else answer
