"""``--dev``: everything on this machine, in one command.

A Placement of one's own is started below ``state_path``, a configuration file that
leads to it is written (``dev.conf``, good for ``computectl`` too), and the tree is
drawn whenever it has changed.
"""

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import IO, Any

from agent.config import ConfigError, Written, as_written
from agent.nodes.nodes import Nodes
from agent.reporting.reports import Report
from computectl.drawing.text_tree import draw_tree
from reportclient.http import token_adapter
from reportclient.plain_text import plain

SERVERS = "compute_agent.placement_servers"
"""Entry points: what can start a Placement here is no part of the daemon."""
FILE_NAME = "dev.conf"
ALWAYS = frozenset({"host", "state_path"})
"""Written even if nobody set them: whoever reads the file may be somewhere else."""


@dataclass(frozen=True, slots=True)
class Dev:
    """Where the Placement is, and the configuration file that leads there."""

    url: str
    token: str
    config_path: Path

    def adapter(self) -> Any:
        """For requests to it."""
        return token_adapter(self.url, self.token)

    def show(self, nodes: Nodes, *, once: bool) -> "Show":
        """A listener of the service."""
        return Show(nodes, None if once else self.config_path)


def start_placement(conf: Any, stack: ExitStack) -> Dev:
    """Start the Placement; it is stopped with ``stack``.

    :raises ConfigError: it does not start; with its own words.
    """
    state_path = Path(conf.state_path).absolute()
    server = _server(state_path / "placement")
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


def _server(directory: Path) -> Any:
    for point in metadata.entry_points(group=SERVERS):
        return point.load()(directory)
    raise ConfigError(f"--dev: no entry point of {SERVERS} is installed: reinstall compute-agent")


def configuration(conf: Any, server: Any) -> str:
    """Every option that somebody set, and a ``[placement]`` of our own."""
    written = as_written(conf)
    sections: dict[str, list[str]] = {"DEFAULT": []}
    for name in conf:
        if name == "placement" or name in {"config_file", "config_dir", "once", "dev", "debug"}:
            continue
        if hasattr(conf[name], "keys"):
            lines = (_set(conf, key, name, written) for key in conf[name])
            sections[name] = [line for each in lines for line in each]
        else:
            sections["DEFAULT"] += _set(conf, name, None, written)
    placement = ["auth_type = admin_token", f"endpoint = {server.url}", f"token = {server.token}"]
    sections["placement"] = placement
    return "\n".join(
        f"[{section}]\n" + "".join(f"{line}\n" for line in lines)
        for section, lines in sections.items()
        if lines
    )


def _set(conf: Any, name: str, group: str | None, written: Written) -> list[str]:
    place = conf.get_location(name, group)
    by_default = place is None or place.location.name in {"opt_default", "set_default"}
    value = conf[name] if group is None else conf[group][name]
    if value is None or (by_default and name not in ALWAYS):
        return []
    if name == "state_path":
        value = Path(value).absolute()
    if not isinstance(value, list):
        return [f"{name} = {value}"]
    # Of an option that may be given more than once every line counts; of a list the last.
    raw = written.get((group or "DEFAULT", name)) or [",".join(map(str, value))]
    return [f"{name} = {one}".replace("\n", "\n    ") for one in raw]


@dataclass(slots=True)
class Show:
    """Draws the trees when something was written, and says what each period did."""

    nodes: Nodes
    config_path: Path | None
    """For who wants to ask more; ``None`` if the Placement ends with this process."""
    out: IO[str] = sys.stdout
    drawn: bool = False

    def __call__(self, reports: Sequence[Report]) -> None:
        """A listener of the service."""
        if not self.drawn or any(report.done for report in reports):
            self._draw()
        for report in reports:
            what = report.changes() or "nothing to change"
            node = plain(report.node)
            self.out.write(f"{node}: {what}, {_calls(report.calls)} to Placement\n")
            for text in report.texts():
                self.out.write(f"{node}: {plain(text)}\n")
        self.out.flush()

    def _draw(self) -> None:
        for uuid, tracker in self.nodes.trackers.items():
            if uuid in tracker.view.snapshot:
                self.out.write(f"\n{draw_tree(tracker.view.snapshot, uuid)}\n\n")
                self.drawn = True
        if self.drawn and self.config_path is not None:
            self.out.write(f"Ask more: {_computectl()} --config-file {self.config_path} tree\n")


def _computectl() -> str:
    """The one that belongs to this agent: it may not be on the PATH."""
    beside = Path(sys.executable).with_name("computectl")
    return str(beside) if beside.exists() else beside.name


def _calls(count: int) -> str:
    return "1 call" if count == 1 else f"{count} calls"
