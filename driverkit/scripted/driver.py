"""FakeDriver: makes the tree as its script describes it."""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from driverkit.scripted import opts
from driverkit.scripted.edit import edit
from driverkit.scripted.script import Script, ScriptError, State, parse
from drivers.api import Allocations, ComputeDriver, DriverContext, DriverNotReady, ProviderTree

LOG = logging.getLogger("compute_agent.drivers")
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
        self, context: DriverContext, *, sleep: Callable[[float], None] = time.sleep
    ) -> None:
        super().__init__(context)
        self._sleep = sleep
        self._periods: Counter[str] = Counter()

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
        nodes = list(self._state.nodes)
        period = max(self._periods.values(), default=0)
        for name in nodes:
            self._periods.setdefault(name, period)
        return nodes

    def get_nodenames_by_uuid(self) -> Mapping[str, str]:
        """Return the nodes that have a UUID in the script."""
        nodes = self._state.nodes.items()
        return {node.uuid: name for name, node in nodes if node.uuid is not None}

    def degraded(self, node: str) -> Mapping[str, str]:  # noqa: ARG002  of all nodes
        """Return ``{"script": error}`` while an error keeps the last good file in use."""
        problem = self._file.problem
        return {} if problem is None else {"script": str(problem)}

    def update_provider_tree(
        self,
        provider_tree: ProviderTree,
        nodename: str,
        allocations: Allocations | None = None,
    ) -> None:
        """Make the tree as the script describes the node now, or fail as the script demands."""
        done = self._periods[nodename]
        period = done if allocations is None else max(done - 1, 0)  # a reshape's second call
        state = self._file.current().at(period)
        node = state.nodes.get(nodename)
        if node is None:
            raise DriverNotReady(f"the script has no node {nodename!r} any more")
        self._periods[nodename] = period + 1
        if state.sleep:
            LOG.info("Sleeping %g s, as the script demands", state.sleep)
            self._sleep(state.sleep)
        if state.not_ready is not None:
            raise DriverNotReady(state.not_ready)
        if state.error is not None:
            raise ScriptedError(state.error)
        edit(provider_tree, nodename, node, allocations)

    @property
    def _state(self) -> State:
        return self._file.current().at(max(self._periods.values(), default=0))

    @cached_property
    def _file(self) -> "ScriptFile":
        conf = self.context.conf
        path = None if conf is None else conf.fake.script
        return ScriptFile(Path(path) if path else DEFAULT_SCRIPT, self.context.host)


class ScriptFile:
    """The script of a file, read again when it changes; may be used from any thread."""

    def __init__(self, path: Path, host: str) -> None:
        self._path = path
        self._host = host
        self._lock = threading.Lock()
        self._text: str | None = None
        self._script: Script | None = None
        self.problem: ScriptError | None = None
        """The error in the present file, if any."""

    def current(self) -> Script:
        """Return the script of the file, or the last good one if the file has an error.

        :raises ScriptError: no valid script was read yet.
        """
        with self._lock:
            try:
                self._read_if_changed()
            except ScriptError as err:
                if self._script is not None and str(err) != str(self.problem):
                    LOG.warning("Script not reloaded, the last valid script stays in use: %s", err)
                self.problem = err
            if self._script is None:
                assert self.problem is not None
                raise self.problem
            return self._script

    def _read_if_changed(self) -> None:
        try:
            text = self._path.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as err:
            self._text = None
            raise ScriptError(f"{self._path}: can't be read: {err}") from err
        if text == self._text:
            return
        self._text = text
        self._script = parse(text, str(self._path), self._host)
        self.problem = None
        LOG.info("Read the script %s (nodes: %d)", self._path, len(self._script.at(0).nodes))
