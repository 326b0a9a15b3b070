"""FakeDriver: makes the tree as its script describes it."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from driverkit.scripted import opts
from driverkit.scripted.on_tree import Footprint, move_allocations, pending_moves, settle
from driverkit.scripted.script import Failure, NodeSpec, NodeState, Now, failures_at, state_at
from driverkit.scripted.script_file import ScriptFile
from drivers.api import (
    Allocations,
    ComputeDriver,
    DriverContext,
    DriverNotReady,
    ProviderTree,
    ReshapeNeeded,
)

LOG = logging.getLogger(__name__)
DEFAULT_SCRIPT = Path(__file__).with_name("default.yaml")


class ScriptedError(RuntimeError):
    """An error that the script simulates."""


class FakeDriver(ComputeDriver):
    """A driver for demonstrations, tests and simulated fleets.

    Each call of ``update_provider_tree`` counts as a period of its node, except the second call
    of a reshape.
    """

    capabilities: Mapping[str, bool] = {
        "supports_image_type_qcow2": True,
        "supports_image_type_raw": True,
    }

    def __init__(
        self,
        context: DriverContext,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(context)
        self._clock = clock
        self._sleep = sleep
        self._periods: dict[str, int] = {}
        self._footprints: dict[str, Footprint] = {}

    @classmethod
    def list_opts(cls) -> list[tuple[str, list[Any]]]:
        """Return the options of the group ``[fake]``."""
        return opts.list_opts()

    def init_host(self, host: str) -> None:  # noqa: ARG002
        """Read the script, so that errors in it are reported at the start.

        :raises ScriptError: the script has an error; the message has file, line and path.
        """
        self._file.current()

    def cleanup_host(self, host: str) -> None:
        """Do nothing: the driver opens nothing."""

    def get_available_nodes(self) -> Sequence[str]:
        """Return the nodes of the script.  :raises ScriptError: no valid script was read yet."""
        return list(self._file.current().nodes)

    def get_nodenames_by_uuid(self) -> Mapping[str, str]:
        """Return the nodes that have a UUID in the script."""
        nodes = self._file.current().nodes.values()
        return {node.uuid: node.name for node in nodes if node.uuid is not None}

    def degraded(self) -> Mapping[str, str]:
        """Return ``{"script": error}`` while an error keeps the last good file in use."""
        problem = self._file.problem
        return {} if problem is None else {"script": problem}

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,
    ) -> None:
        """Make the tree as the script describes the node now, or fail as the script demands."""
        node = self._file.current().nodes.get(nodename)
        if node is None:
            raise DriverNotReady(f"the script has no node {nodename!r} any more")
        now = self._now(nodename, again=allocations is not None)
        failures = failures_at(node, now)
        self._fail(failures)
        state = state_at(node, now)
        self._settle(provider_tree, node, state, allocations)
        _spoil(provider_tree, state, failures)

    def _settle(
        self,
        tree: ProviderTree,
        node: NodeSpec,
        state: NodeState,
        allocations: Allocations | None,
    ) -> None:
        pending = pending_moves(tree, state.moves)
        if pending and allocations is None:
            moves = ", ".join(f"{move.resource_class} from {move.source}" for _, move in pending)
            raise ReshapeNeeded(f"the script moves {moves}")
        settle(tree, node.name, state, self._footprints.setdefault(node.name, Footprint()))
        if allocations is not None:
            move_allocations(tree, pending, allocations)

    def _now(self, nodename: str, *, again: bool) -> Now:
        calls = self._periods.get(nodename, 0) + (0 if again else 1)
        self._periods[nodename] = calls
        started = self._started
        return Now(max(calls - 1, 0), self._clock() - started)

    def _fail(self, failures: Iterable[Failure]) -> None:
        for failure in failures:
            if failure.sleep is not None:
                LOG.info("Sleeping %g s, as the script demands", failure.sleep)
                self._sleep(failure.sleep)
            if failure.not_ready is not None:
                raise DriverNotReady(failure.not_ready)
            if failure.error is not None:
                raise ScriptedError(failure.error)

    @cached_property
    def _started(self) -> float:
        return self._clock()

    @cached_property
    def _file(self) -> ScriptFile:
        conf = self.context.conf
        path = None if conf is None else conf.fake.script
        return ScriptFile(Path(path) if path else DEFAULT_SCRIPT, self.context.host)


def _spoil(tree: ProviderTree, state: NodeState, failures: Iterable[Failure]) -> None:
    """Report the invalid inventories that the script simulates."""
    names = {spec.ref: spec.name for spec in state.providers}
    for failure in failures:
        if failure.inventory is not None and failure.ref in names:
            tree.update_inventory(names[failure.ref], failure.inventory)
