"""Open the registry of the configuration: the SQLite file, or compute-registry over RPC."""

import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from agent.bus.caller import Caller
from agent.bus.errors import Sign
from agent.bus.signing import Operator, Signer
from agent.registry.checks import LONGEST
from agent.registry.errors import RegistryUnavailable
from agent.registry.opts import RegistrySettings, sqlite_file

if TYPE_CHECKING:
    from agent.registry.client import RegistryClient
    from agent.registry.store import SqlRegistry

Registry: TypeAlias = "RegistryClient | SqlRegistry"
"""Service records by host, over RPC or in a file; :class:`RegistryClient` describes the methods."""


def open_registry(
    settings: RegistrySettings,
    transport: Any,
    caller: Caller | None = None,
    *,
    host: str = "",
    command_on: str = "",
) -> Registry:
    """Return the registry for an agent or a command.

    ``transport`` may be ``None`` where access is direct.  ``caller`` is for the log of
    compute-registry, by default the agent of this machine.  ``host``: an agent's host, whose key
    signs its calls.  ``command_on``: the host on which a command runs; without a master key its
    calls are signed with that host's key, and have the permissions of its agent.

    :raises RegistryUnavailable: the file can't be opened, or there is no message bus.
    """
    if settings.access == "rpc":
        if transport is None:
            raise RegistryUnavailable("[registry] access = rpc needs a transport_url")
        from agent.registry.client import RegistryClient  # noqa: PLC0415  oslo.messaging

        ours = caller or Caller(user="compute-agent", where=socket.gethostname())
        return RegistryClient.over(transport, caller=ours, sign=_sign(settings, host, command_on))
    return _open_database(settings, own=bool(host))


def _sign(settings: RegistrySettings, host: str, command_on: str) -> Sign | None:
    if settings.master_key and not (host and settings.host_key):
        return Operator(settings.master_key).sign
    own = host or command_on
    return Signer(settings.host_key, own).sign if settings.host_key and own else None


def _open_database(settings: RegistrySettings, *, own: bool) -> Registry:
    # With access = rpc neither module is loaded.
    from agent.registry.host_database import HostDatabase  # noqa: PLC0415
    from agent.registry.store import SqlRegistry  # noqa: PLC0415

    file = sqlite_file(settings.connection)
    assert file, "agent.opts.settings refuses any other connection"
    database = HostDatabase(file, own)
    database.upgrade()
    return SqlRegistry(database, settings.down_after, settings.binary)


BOOT_ID = "/proc/sys/kernel/random/boot_id"


def agent_address(state_path: Path, *, root: Path = Path("/")) -> str:
    """Return the address of an agent: machine name, boot id and state directory.

    It is the same after a restart of the agent.  The boot id tells cloned machines apart.
    """
    try:
        boot = (root / BOOT_ID.lstrip("/")).read_text(encoding="ascii").strip()
    except OSError:
        boot = "?"
    return f"{socket.gethostname()} (boot {boot}, {state_path.absolute()})"[:LONGEST]
