"""``compute-agent --dev``: an agent and its own Placement on this machine, in one command.

:func:`start_placement` starts a Placement below ``state_path`` and writes ``dev.conf`` there, a
configuration file for the agent and ``computectl``.  :class:`Show` draws the tree after each
change.  ``agent.main`` loads this module through the entry point ``compute_agent.dev``, since the
daemon imports nothing of ``driverkit``.
"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from agent.config import ConfigError, files_of, sections
from agent.nodes.nodes import Nodes
from agent.reporting.reports import Report
from computectl.drawing.text_tree import draw_tree
from computectl.shared.screen import Terminal
from driverkit.placement.server import PlacementServer
from drivers.extras import missing
from reportclient.http import token_adapter
from reportclient.plain_text import plain

FILE_NAME = "dev.conf"


@dataclass(frozen=True, slots=True)
class Dev:
    """A started Placement, and the configuration file with its URL and token."""

    url: str
    token: str
    config_path: Path

    def adapter(self) -> Any:
        """Return a keystoneauth adapter for requests to this Placement."""
        return token_adapter(self.url, self.token)

    def show(self, nodes: Nodes, *, once: bool) -> "Show":
        """Return a listener for ``Service.listeners`` that draws the trees of ``nodes``."""
        return Show(nodes, None if once else self.config_path)


def start_placement(conf: Any, stack: ExitStack) -> Dev:
    """Start a Placement in ``state_path`` and write ``dev.conf``; closing ``stack`` stops it.

    :raises ConfigError: the Placement is not installed, or does not start (the end of its log).
    """
    if text := missing("dev", "placement", "waitress"):
        raise ConfigError(f"--dev: {text}")
    state_path = Path(conf.state_path).absolute()
    server = PlacementServer(state_path / "placement")
    shown = Path(conf.state_path) / server.directory.name
    sys.stderr.write(f"Starting a Placement in {shown} ...\n")
    try:
        state_path.mkdir(parents=True, exist_ok=True)
        server.start()
    except (RuntimeError, OSError) as err:
        raise ConfigError(f"--dev: {err}") from err
    stack.callback(server.stop)
    path = state_path / FILE_NAME
    path.write_text(configuration(conf, server), encoding="utf-8")
    return Dev(server.url, server.token, path)


def configuration(conf: Any, server: Any) -> str:
    """Return ``dev.conf``: what the files of ``conf`` have, and ``[placement]`` for ``server``.

    The options of ``[DEFAULT]`` that a command line can set have the values in effect, and so has
    ``host``, whose default is another one on another host.
    """
    shown = {
        "host": conf.host,
        "state_path": Path(conf.state_path).absolute(),
        "compute_driver": ",".join(conf.compute_driver),
    }
    lines = {"DEFAULT": [f"{name} = {value}" for name, value in shown.items()]}
    for path in files_of(conf):
        for group, options in sections(path).items():
            for name, values in options.items():
                if group != "DEFAULT" or name.replace("-", "_") not in shown:
                    written = (f"{name} = {value}".replace("\n", "\n    ") for value in values)
                    lines.setdefault(group, []).extend(written)
    placement = ["auth_type = admin_token", f"endpoint = {server.url}", f"token = {server.token}"]
    lines["placement"] = placement
    return "\n".join(
        f"[{group}]\n" + "".join(f"{line}\n" for line in of_group)
        for group, of_group in lines.items()
    )


@dataclass(slots=True)
class Show:
    """Prints a line for each period, and the trees after a period that wrote something."""

    nodes: Nodes
    config_path: Path | None
    """``dev.conf``, for ``computectl``; ``None`` with ``--once``, whose Placement ends at once."""
    out: IO[str] = field(default_factory=lambda: Terminal.around(sys.stdout))
    drawn: bool = False

    def __call__(self, reports: Sequence[Report]) -> None:
        """Print the reports of one period."""
        if not self.drawn or any(report.done for report in reports):
            for uuid, tracker in self.nodes.trackers.items():
                if uuid in tracker.view.snapshot:
                    self.out.write(f"\n{draw_tree(tracker.view.snapshot, uuid)}\n\n")
                    self.drawn = True
            if self.drawn and self.config_path is not None:
                # That of this virtual environment, which may not be on PATH.
                path = Path(sys.executable).with_name("computectl")
                computectl = path if path.exists() else path.name
                command = f"{computectl} --config-file {self.config_path} tree"
                self.out.write(f"Ask more: {command}\n")
        for report in reports:
            node = plain(report.node)
            self.out.write(f"{node}: {plain(report.sentence())}\n")
            for text in report.texts():
                self.out.write(f"{node}: {plain(text)}\n")
        self.out.flush()
