"""A command's session: the agent's configuration, and Placement to read from."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from agent import config
from agent.nodes.identity import FILE_NAME, saved_compute_id, saved_nodes
from agent.state.lock import InUse, lock_directory
from agent.state.roots import RootStore
from agent.state.saved_root import SavedRoot, saved_roots
from computectl.shared.errors import CommandError
from reportclient.http import API, PlacementAPI, adapter_from_conf
from reportclient.transport import LIMIT

ANSWER = 8 * LIMIT
"""Bytes of one answer: a fleet's candidates are more than an agent ever asks for."""


@dataclass(frozen=True, slots=True)
class Session:
    """The configuration as the agent reads it."""

    conf: Any
    settings: config.Settings

    @classmethod
    def from_config_files(cls, files: Sequence[str], directories: Sequence[str]) -> "Session":
        """From the files that were named, or else those that the agent would find.

        :raises agent.config.ConfigError: they can't be used.
        """
        args = [word for name in files for word in ("--config-file", name)]
        args += [word for name in directories for word in ("--config-dir", name)]
        conf = config.load(args)
        return cls(conf, config.settings(conf))

    def placement(self, *, writing: bool = False) -> API:
        """Placement, to read from only, or for the one command that writes.

        :raises reportclient.errors.AuthenticationFailed: how to log in is not said.
        """
        api = PlacementAPI(adapter_from_conf(self.conf, ANSWER))
        return api if writing else ReadOnly(api)

    def compute_id(self) -> str | None:
        """This host's, or ``None`` if it has none; a command never makes one.

        :raises agent.nodes.identity.IdentityError: what is kept can't be read, or disagrees.
        """
        return saved_compute_id(self.settings.state_path) or None

    def roots(self) -> list[str]:
        """UUIDs that the roots of this host may have; empty if it has no compute_id.

        A driver with several nodes knows which there are, and whose root is another
        service's has found it; without asking them, the agent's saved views tell.
        """
        own = self.compute_id()
        if own is None and not self.settings.rules.attached:
            return []
        saved = saved_roots(self.settings.state_path)
        return list(dict.fromkeys([*([own] if own else []), *saved]))

    def reports(self, root: str) -> bool:
        """Whether it is the root of a node that this host reports, as far as that is known.

        A driver may know the UUIDs of its nodes, and an operator may have given the host
        another one: then the host's own, or its former one, is the root of nothing.
        """
        nodes = saved_nodes(self.settings.state_path)
        return self.settings.rules.attached or not nodes or root in nodes.values()

    def saved_root(self, root: str, *, writing: bool = False) -> SavedRoot:
        """Return the saved state of a root, not read yet."""
        return SavedRoot(RootStore.in_directory(self.settings.state_path, writing=writing), root)

    @contextmanager
    def without_agent(self, next_step: str) -> Iterator[None]:
        """A running agent has its ledger in memory and would not see what is written.

        :raises CommandError: one runs.
        """
        try:
            held = lock_directory(self.settings.state_path)
        except InUse as err:
            raise CommandError(err.what, next_step) from err
        try:
            yield
        finally:
            if held is not None:
                os.close(held)

    def no_compute_id(self) -> CommandError:
        """To raise where a command can't do without."""
        if self.settings.rules.attached:
            return CommandError(
                f"no root of this host is known in {self.settings.state_path} yet: "
                "has its owner made it, and the agent run here?",
                "`computectl plan` says what it waits for; a tree is shown by its name as well",
            )
        return CommandError(
            f"this host has no {FILE_NAME} in {self.settings.state_path} yet: "
            "has the agent run here? (other hosts' trees: by the name of a provider)",
            "start compute-agent, or name its configuration with --config-file",
        )


class ReadOnly:
    """A read-only Placement: a write is an error here."""

    def __init__(self, api: API) -> None:
        self._api = api

    def request(
        self, method: str, path: str, *, json: Any = None, needs: str | None = None
    ) -> dict[str, Any]:
        """See :class:`reportclient.http.API`."""
        if method != "GET":
            raise PermissionError(f"{method} {path}: computectl only reads")
        return self._api.request(method, path, json=json, needs=needs)
