"""FakeDriver: lists the devices that its script describes."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from driverkit.scripted import opts
from driverkit.scripted.script import Node, ScriptError, parse
from drivers.api import Device, DeviceDriver, DriverContext, DriverNotReady

LOG = logging.getLogger("compute_agent.drivers")
DEFAULT_SCRIPT = Path(__file__).with_name("default.yaml")


class FakeDriver(DeviceDriver):
    """A driver for demonstrations, tests and simulated fleets."""

    capabilities: Mapping[str, bool] = {
        "supports_image_type_qcow2": True,
        "supports_image_type_raw": True,
    }

    def __init__(self, context: DriverContext) -> None:
        super().__init__(context)
        self._text: str | None = None
        self._nodes: Mapping[str, Node] = {}
        """The nodes of the last valid script."""
        self._error: ScriptError | None = None
        """The error in the present file, if any."""

    @classmethod
    def list_opts(cls) -> list[tuple[str, list[Any]]]:
        """Return the options of the group ``[fake]``."""
        return opts.list_opts()

    def init_host(self, host: str) -> None:
        """Read the script, so that errors in it are reported at the start.

        :raises ScriptError: the script has an error; the message has file, line and path.
        """
        self._current()

    def cleanup_host(self, host: str) -> None:
        """Do nothing: the driver opens nothing."""

    def get_available_nodes(self) -> Sequence[str]:
        """Return the nodes of the script.  :raises ScriptError: no valid script was read yet."""
        return list(self._current())

    def get_nodenames_by_uuid(self) -> Mapping[str, str]:
        """Return the nodes that have a UUID in the script."""
        nodes = self._current().items()
        return {node.uuid: name for name, node in nodes if node.uuid is not None}

    def degraded(self, node: str) -> Mapping[str, str]:
        """Return ``{"script": error}`` while an error keeps the last valid script in use."""
        problem = {} if self._error is None else {"script": str(self._error)}
        return {**super().degraded(node), **problem}

    def devices(self, node: str) -> Sequence[Device]:
        """Return the devices of a node.  :raises DriverNotReady: the script does not have it."""
        described = self._current().get(node)
        if described is None:
            raise DriverNotReady(f"the script has no node {node!r} any more")
        return described.devices

    def _current(self) -> Mapping[str, Node]:
        """Return the nodes of the file, or of the last valid script if the file has an error.

        :raises ScriptError: no valid script was read yet.
        """
        try:
            self._read_if_changed()
        except ScriptError as err:
            if self._nodes and str(err) != str(self._error):
                LOG.warning("Script not reloaded, the last valid script stays in use: %s", err)
            self._error = err
        if self._error is not None and not self._nodes:
            raise self._error
        return self._nodes

    def _read_if_changed(self) -> None:
        conf = self.context.conf
        path = Path((conf and conf.fake.script) or DEFAULT_SCRIPT)
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeError) as err:
            self._text = None
            raise ScriptError(f"{path}: can't be read: {err}") from err
        if text == self._text:
            return
        self._text = text
        self._nodes, self._error = parse(text, str(path), self.context.host), None
        LOG.info("Read the script %s (nodes: %d)", path, len(self._nodes))
