"""A command's access to the agent's configuration, its saved state, and Placement."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from agent import config, opts
from agent.nodes.identity import COPIED, FILE_NAME, NODES, saved_compute_id, saved_nodes
from agent.placement import adapter_from_conf
from agent.reporting.status import FILE_NAME as STATUS_FILE
from agent.state.document import Document, Unusable
from agent.state.lock import InUse, StateDirectory
from agent.state.saved_root import SavedRoot, saved_roots
from computectl.shared.errors import CommandError
from reportclient.http import API, LIMIT, PlacementAPI

ANSWER = 8 * LIMIT
"""Maximum size of Placement's answer, in bytes; eight times the agent's, for large listings."""


@dataclass(frozen=True, slots=True)
class Session:
    """Access to the agent's configuration, its saved state, and Placement."""

    conf: Any
    settings: opts.Settings

    @classmethod
    def from_config_files(cls, files: Sequence[str], directories: Sequence[str]) -> "Session":
        """Read the given configuration files, or by default those that the agent reads.

        :raises agent.config.ConfigError: the configuration is invalid.
        """
        args = [word for name in files for word in ("--config-file", name)]
        args += [word for name in directories for word in ("--config-dir", name)]
        conf = config.load_config(args)
        return cls(conf, config.settings(conf))

    def placement(self, *, writing: bool = False) -> API:
        """Return a client of Placement that refuses writes unless ``writing``.

        :raises reportclient.errors.AuthenticationFailed: the configuration has no credentials.
        """
        api = PlacementAPI(adapter_from_conf(self.conf, ANSWER))
        return api if writing else ReadOnly(api)

    def compute_id(self) -> str | None:
        """Return this host's compute_id; ``None`` if it has none.  Never creates one.

        :raises agent.nodes.identity.IdentityError: the saved files can't be read, or disagree.
        """
        return saved_compute_id(self.settings.state_path) or None

    def roots(self) -> list[str]:
        """Return the UUIDs that this host's roots may have; empty if it has no compute_id.

        They are the compute_id and the roots with a saved view: a driver may have several nodes,
        and in attach mode the agent has looked up the root.
        """
        own = self.compute_id()
        if own is None and not self.settings.rules.attached:
            return []
        saved = saved_roots(self.settings.state_path)
        return list(dict.fromkeys([*([own] if own else []), *saved]))

    def remaining_roots(self) -> list[str]:
        """Return this host's roots; none of an attached host that was retired.

        :raises CommandError: this host has no root, and the agent has not run here.
        """
        roots = self.roots()
        ran = (self.settings.state_path / STATUS_FILE).exists()
        if not roots and not (self.settings.rules.attached and ran):
            raise self.no_compute_id()
        return roots

    def reports(self, root: str) -> bool:
        """Return whether a node of this host has this root, according to ``nodes.json``.

        No node has the compute_id if the driver gives its nodes other UUIDs, or a former compute_id
        after ``computectl adopt``.
        """
        nodes = saved_nodes(self.settings.state_path)
        return self.settings.rules.attached or not nodes or root in nodes.values()

    def copied(self, root: str) -> str:
        """Return why nothing is written to a root whose saved state is another machine's."""
        path = self.settings.state_path
        if self.settings.rules.attached:
            document = self.saved_root(root).document
        else:
            document = Document(path / NODES, writing=False)
        with suppress(Unusable):
            document.read(dict)
        return COPIED.format(root=root, path=path) if document.of_other_machine else ""

    def saved_root(self, root: str, *, writing: bool = False) -> SavedRoot:
        """Return the saved state of a root, not loaded yet."""
        return SavedRoot.in_directory(self.settings.state_path, root, writing=writing)

    @contextmanager
    def without_agent(self, next_step: str) -> Iterator[None]:
        """Hold the agent's lock: a running agent would overwrite changes of its ledger.

        :raises CommandError: the agent is running; ``next_step`` says what to do.
        """
        try:
            held = StateDirectory.locked(self.settings.state_path)
        except InUse as err:
            raise CommandError(err.what, next_step) from err
        try:
            yield
        finally:
            held.close()

    def no_compute_id(self) -> CommandError:
        """Return the error for a command that needs a compute_id or a root."""
        if self.settings.rules.attached:
            return CommandError(
                f"no root of this host is known in {self.settings.state_path} yet: "
                "has its owner created it, and has the agent run here?",
                "`computectl plan` shows what the agent waits for; `computectl tree NAME` shows "
                "the tree of a provider",
            )
        return CommandError(
            f"this host has no {FILE_NAME} in {self.settings.state_path} yet: "
            "has the agent run here? (for another host's tree, give the name of a provider)",
            "start compute-agent, or name its configuration with --config-file",
        )


class ReadOnly:
    """A client of Placement that sends GETs only."""

    def __init__(self, api: API) -> None:
        self._api = api

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        if method != "GET":
            raise PermissionError(f"{method} {path}: computectl only reads")
        return self._api.request(method, path, json=json, needs=needs)
